#include "apid/gate/audit-log.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "common/text/texts.h"
#include "common/wire/rpc-server.h"

namespace talos::apid {
namespace {

constexpr auto kPause = 200 * kj::MILLISECONDS;  // between two attempts

kj::String joined(kj::ArrayPtr<const kj::String> roles) {
  return kj::strArray(roles, ",");
}

}  // namespace

struct AuditLog::Record {
  Caller caller;
  kj::Array<kj::String> roles;
  AuditTrail::Call call;

  void logUndelivered(kj::StringPtr error) const {
    log::error("cannot deliver an audit record", {{"error", error},
                                                  {"client", caller.name},
                                                  {"address", caller.address},
                                                  {"via", caller.via},
                                                  {"request", caller.request},
                                                  {"roles", joined(roles)},
                                                  {"call", call.text},
                                                  {"outcome", call.outcome}});
  }
};

class AuditLog::Trail final : public AuditTrail, public kj::Refcounted {
 public:
  Trail(AuditLog& log, Caller caller, kj::Array<kj::String> roles)
      : log(log), caller(kj::mv(caller)), roles(kj::mv(roles)) {}

  kj::Own<AuditTrail> addRef() override { return kj::addRef(*this); }
  kj::TimePoint now() override { return log.timer.now(); }
  kj::Promise<void> record(Call call) override {
    if (call.refused && log.countOnly(caller.name)) return kj::READY_NOW;
    return log.add(kj::heap<Record>(
        Record{.caller = caller.clone(), .roles = copyOf(roles), .call = kj::mv(call)}));
  }

 private:
  AuditLog& log;
  Caller caller;
  kj::Array<kj::String> roles;
};

AuditLog::AuditLog(kj::Timer& timer, rpc::Machined::Client machined, Limits limits)
    : timer(timer), machined(kj::mv(machined)), limits(limits) {}
AuditLog::AuditLog(kj::Timer& timer, rpc::Machined::Client machined)
    : AuditLog(timer, kj::mv(machined), Limits()) {}

kj::Own<AuditTrail> AuditLog::trail(Caller caller, kj::ArrayPtr<const kj::String> roles) {
  return kj::refcounted<Trail>(*this, kj::mv(caller), copyOf(roles));
}

// Returns true if this refused call is only counted.
bool AuditLog::countOnly(kj::StringPtr name) {
  if (refused.size() == 0) {
    windowEnd = timer.afterDelay(limits.window)
                    .then([this]() { endWindow(); })
                    .eagerlyEvaluate([](kj::Exception&&) {});
  }
  bool known = refused.find(name) != nullptr;
  auto key = known || refused.size() < limits.names ? name : ""_kj;
  auto& entry = refused.findOrCreate(
      key, [&]() { return decltype(refused)::Entry{kj::str(key), Refusals()}; });
  if (entry.recorded < limits.refusals) {
    ++entry.recorded;
    return false;
  }
  ++entry.more;
  return true;
}

void AuditLog::endWindow() {
  for (auto& entry : refused) {
    if (entry.value.more == 0) continue;
    tasks.add(
        add(kj::heap<Record>(Record{.caller = {kj::str(entry.key), kj::str(), kj::str(), kj::str()},
                                    .roles = nullptr,
                                    .call = {.text = kj::str(entry.value.more, " more calls"),
                                             .outcome = kj::str("refused"),
                                             .refused = true,
                                             .duration = limits.window}})));
  }
  refused.clear();
}

kj::Promise<void> AuditLog::add(kj::Own<Record> record) {
  if (pending >= limits.pending) {
    record->logUndelivered(kj::str(pending, " other records are pending, which is the limit"));
    return kj::READY_NOW;
  }
  // This object owns the recording, which continues if its caller drops the promise.
  auto fork = deliver(kj::mv(record)).fork();
  tasks.add(fork.addBranch());
  return fork.addBranch();
}

kj::Promise<void> AuditLog::deliver(kj::Own<Record> record) {
  ++pending;
  KJ_DEFER(--pending);
  auto end = timer.now() + limits.timeout;
  for (;;) {
    auto left = end - timer.now();
    kj::Maybe<kj::Exception> failure;
    try {
      co_await within(
          timer, left, deliverOnce(*record),
          kj::str("no answer from machined within ", limits.timeout / kj::SECONDS, " s"));
      co_return;
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (e, failure) {
      bool retry = kindOf(*e) == ErrorKind::kUnavailable && left > kPause;
      if (!retry) {
        record->logUndelivered(messageOf(*e));
        co_return;
      }
    }
    co_await timer.afterDelay(kPause);
  }
}

kj::Promise<void> AuditLog::deliverOnce(const Record& record) {
  auto request = machined.auditRequest();
  auto out = request.initRecord();
  out.setClient(record.caller.name);
  out.setAddress(record.caller.address);
  out.setVia(record.caller.via);
  out.setRequest(record.caller.request);
  auto roles = out.initRoles(record.roles.size());
  for (size_t i = 0; i < record.roles.size(); ++i) roles.set(i, record.roles[i]);
  out.setCall(record.call.text);
  out.setOutcome(record.call.outcome);
  out.setDurationUs(record.call.duration / kj::MICROSECONDS);
  return request.send().ignoreResult();
}

void AuditLog::taskFailed(kj::Exception&& e) {
  log::error("cannot write to the audit log", {{"error", messageOf(e)}});
}

}  // namespace talos::apid
