#include "common/wire/request-trace.h"

#include <capnp/membrane.h>

#include "common/base/error.h"
#include "common/base/waits.h"
#include "common/wire/call-observer.h"
#include "common/wire/one-call.h"

namespace talos {
namespace {

// Returns true for errors about which the caller can do nothing, so that it examines the node's
// logs next.
bool isNodesFault(ErrorKind kind) {
  return kind == ErrorKind::kInternal || kind == ErrorKind::kUnavailable ||
         kind == ErrorKind::kDeadlineExceeded;
}

// A caller that waited so long and gave up has no other answer.
constexpr auto kLongWait = 5 * kj::SECONDS;

}  // namespace

// A call under way. If it is dropped, it ends as cancelled.
class RequestTrace::Call final : public OneCall {
 public:
  Call(RequestTrace& trace, kj::StringPtr request, const Rules::Rule& rule)
      : trace(trace),
        request(kj::str(request)),
        method(kj::str(rule.method)),
        changes(rule.audit),
        stream(rule.takesCapability),
        began(trace.clock.now()),
        wait(kj::str("call ", method, ", request ", request)) {
    if (!changes) return;
    trace.write(log::Level::kInfo, "call began", {{"method", method}, {"request", request}});
  }
  ~Call() noexcept(false) override {
    if (over) return;
    bool hung = !stream && trace.clock.now() - began >= kLongWait && trace.failures.admits(request);
    write(hung ? log::Level::kWarning : level(), CallObserver::kCancelled);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Call);

  void answered() override { write(level(), CallObserver::kOk); }
  void failed(const kj::Exception& e) override {
    auto kind = kindOf(e);
    bool shown = isNodesFault(kind) && trace.failures.admits(request);
    write(shown ? log::Level::kWarning : level(), nameOf(kind), messageOf(e));
  }

 private:
  RequestTrace& trace;
  kj::String request, method;
  bool changes, stream, over = false;
  kj::TimePoint began;
  Wait wait;

  log::Level level() const { return changes ? log::Level::kInfo : log::Level::kDebug; }
  void write(log::Level level, kj::StringPtr result, kj::StringPtr error = "") {
    over = true;
    auto microseconds = (trace.clock.now() - began) / kj::MICROSECONDS;
    if (error.size() == 0) {
      trace.write(level, "call ended",
                  {{"method", method},
                   {"request", request},
                   {"result", result},
                   {"microseconds", microseconds}});
    } else {
      trace.write(level, "call failed",
                  {{"method", method},
                   {"request", request},
                   {"error", kj::str(result, ": ", error)},
                   {"microseconds", microseconds}});
    }
  }
};

class RequestTrace::Policy final : public capnp::MembranePolicy, public kj::Refcounted {
 public:
  Policy(RequestTrace& trace, kj::StringPtr request) : trace(trace), request(kj::str(request)) {}

  kj::Maybe<capnp::Capability::Client> inboundCall(uint64_t interface, uint16_t method,
                                                   capnp::Capability::Client target) override {
    auto rule = trace.rules.find(interface, method);
    if (rule.returnsCapability) return nullptr;
    return forOneCall(kj::mv(target), kj::heap<Call>(trace, request, rule));
  }
  kj::Maybe<capnp::Capability::Client> outboundCall(uint64_t, uint16_t,
                                                    capnp::Capability::Client) override {
    return nullptr;  // the caller's own capabilities
  }
  kj::Own<capnp::MembranePolicy> addRef() override { return kj::addRef(*this); }

 private:
  RequestTrace& trace;
  kj::String request;
};

void RequestTrace::write(log::Level level, kj::StringPtr message,
                         std::initializer_list<log::Field> fields) {
  if (!log::writes(level)) return;
  KJ_IF_MAYBE (own, keep) {
    (*own)(log::format(level, message, fields));
  } else {
    log::write(level, message, fields);
  }
}

capnp::Capability::Client RequestTrace::wrap(capnp::Capability::Client inner,
                                             kj::StringPtr request) {
  return capnp::membrane(kj::mv(inner), kj::refcounted<Policy>(*this, request));
}

}  // namespace talos
