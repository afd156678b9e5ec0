#include "apid/gate/forwarded-calls.h"

#include "common/base/error.h"

namespace talos::apid {
namespace {

using capnp::AnyPointer;
using capnp::CallContextHook;
using capnp::ClientHook;
using capnp::MessageSize;
using capnp::PipelineHook;
using capnp::PipelineOp;
using capnp::RequestHook;
using capnp::ResponseHook;
using Call = ForwardedCalls::Call;
using CallRequest = capnp::Request<AnyPointer, AnyPointer>;
using CallResponse = capnp::Response<AnyPointer>;

// Cost of a call besides its bytes, as the other node charges it (common/wire/budget.h).
constexpr size_t kLeast = 16u << 10;

size_t bytesOf(AnyPointer::Reader message) {
  return message.targetSize().wordCount * sizeof(capnp::word);
}

// Copies of an answer in memory: the received one, and one that was sent to a client over Cap'n
// Proto, because the RPC system keeps a sent answer with capabilities until it is finished. It is
// unknown here if the client uses Cap'n Proto.
constexpr size_t kCopies = 2;

// Stands for a capability of a membrane for one call.
class WrappedHook : public ClientHook, public kj::Refcounted {
 public:
  WrappedHook(kj::Own<ClientHook> inner, bool& passes) : inner(kj::mv(inner)), passes(passes) {}
  kj::Maybe<ClientHook&> getResolved() override { return nullptr; }
  kj::Maybe<kj::Promise<kj::Own<ClientHook>>> whenMoreResolved() override { return nullptr; }
  kj::Own<ClientHook> addRef() override { return kj::addRef(*this); }
  const void* getBrand() override { return &kBrand; }
  kj::Maybe<int> getFd() override { return nullptr; }

 protected:
  VoidPromiseAndPipeline pass(uint64_t interface, uint16_t method, kj::Own<CallContextHook> context,
                              CallHints hints) {
    passes = true;
    KJ_DEFER(passes = false);
    return inner->call(interface, method, kj::mv(context), hints);
  }
  CallRequest passNew(uint64_t interface, uint16_t method, kj::Maybe<MessageSize> size,
                      CallHints hints) {
    passes = true;
    KJ_DEFER(passes = false);
    return inner->newCall(interface, method, size, hints);
  }

 private:
  static constexpr char kBrand = 0;
  kj::Own<ClientHook> inner;
  bool& passes;
};

// Keeps an answer for calls to the capabilities in it, until the answer is refused.
struct KeptAnswer : kj::Refcounted {
  explicit KeptAnswer(kj::Own<PipelineHook> pipeline) : pipeline(kj::mv(pipeline)) {}
  void refuse(kj::Exception reason) { pipeline = capnp::newBrokenPipeline(kj::mv(reason)); }

  kj::Own<PipelineHook> pipeline;
};

// A charged answer, for its reader and for calls to the capabilities in it.
struct ChargedAnswer : kj::Refcounted {
  ChargedAnswer(CallResponse response, kj::Own<Call> call)
      : call(kj::mv(call)), response(kj::mv(response)) {}

  kj::Own<ChargedAnswer> addRef() { return kj::addRef(*this); }

  kj::Own<Call> call;
  CallResponse response;
};

class CountedPipeline final : public PipelineHook, public kj::Refcounted {
 public:
  // `charged`: this pipeline also waits for the answer, because an unread answer would be free
  // otherwise.
  CountedPipeline(kj::Own<KeptAnswer> answer, kj::Own<Call> call, kj::Promise<void> charged)
      : call(kj::mv(call)), answer(kj::mv(answer)), charged(kj::mv(charged)) {}
  kj::Own<PipelineHook> addRef() override { return kj::addRef(*this); }
  kj::Own<ClientHook> getPipelinedCap(kj::ArrayPtr<const PipelineOp> ops) override {
    return answer->pipeline->getPipelinedCap(ops);
  }
  kj::Own<ClientHook> getPipelinedCap(kj::Array<PipelineOp>&& ops) override {
    return answer->pipeline->getPipelinedCap(kj::mv(ops));
  }

 private:
  kj::Own<Call> call;
  kj::Own<KeptAnswer> answer;
  kj::Promise<void> charged;
};

class CountedResponse final : public ResponseHook {
 public:
  explicit CountedResponse(kj::Own<ChargedAnswer> answer) : answer(kj::mv(answer)) {}

 private:
  kj::Own<ChargedAnswer> answer;
};

class CountedRequest final : public RequestHook {
 public:
  CountedRequest(CallRequest request, ForwardedCalls& calls, ForwardedCalls::Client client)
      : params(request),
        inner(RequestHook::from(kj::mv(request))),
        calls(kj::addRef(calls)),
        client(kj::mv(client)) {}

  capnp::RemotePromise<AnyPointer> send() override {
    auto call = begin();
    auto sent = inner->send();
    auto kept = kj::refcounted<KeptAnswer>(PipelineHook::from(kj::mv(sent)));
    auto answer = sent.then([call = kj::addRef(*call), kept = kj::addRef(*kept),
                             account = client.clone().account](CallResponse&& response) mutable {
                        KJ_IF_MAYBE (e, charge(*call, account, bytesOf(response))) {
                          kept->refuse(kj::cp(*e));
                          kj::throwFatalException(kj::mv(*e));
                        }
                        return kj::refcounted<ChargedAnswer>(kj::mv(response), kj::mv(call));
                      })
                      .fork();
    auto charged = answer.addBranch().ignoreResult().eagerlyEvaluate([](kj::Exception&&) {});
    auto response = answer.addBranch().then([](kj::Own<ChargedAnswer>&& answer) {
      AnyPointer::Reader reader = answer->response;
      return CallResponse(reader, kj::heap<CountedResponse>(kj::mv(answer)));
    });
    return capnp::RemotePromise<AnyPointer>(kj::mv(response),
                                            AnyPointer::Pipeline(kj::refcounted<CountedPipeline>(
                                                kj::mv(kept), kj::mv(call), kj::mv(charged))));
  }
  kj::Promise<void> sendStreaming() override {
    auto call = begin();
    return inner->sendStreaming().attach(kj::mv(call));
  }
  // Makes a whole call, because its answer arrives all the same.
  AnyPointer::Pipeline sendForPipeline() override {
    auto sent = send();
    return AnyPointer::Pipeline(PipelineHook::from(kj::mv(sent)));
  }
  const void* getBrand() override { return nullptr; }

 private:
  AnyPointer::Builder params;
  kj::Own<RequestHook> inner;
  kj::Own<ForwardedCalls> calls;
  ForwardedCalls::Client client;

  kj::Own<Call> begin() { return calls->begin(client, bytesOf(params.asReader())); }
  // The call's own charge covers a few bytes.
  static kj::Maybe<kj::Exception> charge(Call& call, kj::Own<Budget::Account>& account,
                                         size_t bytes) {
    if (account.get() == nullptr || bytes <= kLeast) return nullptr;
    return kj::runCatchingExceptions([&]() { call.hold(account->hold(bytes * kCopies)); });
  }
};

class CountedHook final : public WrappedHook {
 public:
  CountedHook(kj::Own<ClientHook> inner, bool& passes, ForwardedCalls& calls,
              ForwardedCalls::Client client)
      : WrappedHook(kj::mv(inner), passes), calls(kj::addRef(calls)), client(kj::mv(client)) {}

  CallRequest newCall(uint64_t interface, uint16_t method, kj::Maybe<MessageSize> size,
                      CallHints hints) override {
    auto request = passNew(interface, method, size, hints);
    AnyPointer::Builder params = request;
    return CallRequest(params, kj::heap<CountedRequest>(kj::mv(request), *calls, client.clone()));
  }
  VoidPromiseAndPipeline call(uint64_t interface, uint16_t method,
                              kj::Own<CallContextHook>&& context, CallHints hints) override {
    try {
      // Makes a separate request: its answer is charged wherever it is kept.
      auto params = context->getParams();
      auto request = newCall(interface, method, params.targetSize(), hints);
      request.set(params);
      context->releaseParams();
      if (hints.onlyPromisePipeline) {
        return {kj::NEVER_DONE, PipelineHook::from(request.sendForPipeline())};
      }
      return context->directTailCall(RequestHook::from(kj::mv(request)));
    } catch (...) {
      auto failure = kj::getCaughtExceptionAsKj();
      return {kj::cp(failure), capnp::newBrokenPipeline(kj::mv(failure))};
    }
  }

 private:
  kj::Own<ForwardedCalls> calls;
  ForwardedCalls::Client client;
};

class ChargedHook final : public WrappedHook {
 public:
  ChargedHook(kj::Own<ClientHook> inner, bool& passes, kj::Own<Budget::Account> account)
      : WrappedHook(kj::mv(inner), passes), account(kj::mv(account)) {}

  // Does not charge: data that arrives passes through call().
  CallRequest newCall(uint64_t interface, uint16_t method, kj::Maybe<MessageSize> size,
                      CallHints hints) override {
    return passNew(interface, method, size, hints);
  }
  VoidPromiseAndPipeline call(uint64_t interface, uint16_t method,
                              kj::Own<CallContextHook>&& context, CallHints hints) override {
    kj::Maybe<Budget::Account::Hold> hold;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&]() { hold.emplace(account->hold(bytesOf(context->getParams()))); })) {
      return {kj::cp(*e), capnp::newBrokenPipeline(kj::mv(*e))};
    }
    auto result = pass(interface, method, kj::mv(context), hints);
    return {result.promise.attach(kj::mv(hold)), kj::mv(result.pipeline)};
  }

 private:
  kj::Own<Budget::Account> account;
};

}  // namespace

ForwardedCalls::Client ForwardedCalls::Client::clone() {
  return {kj::str(name), privileged,
          account.get() == nullptr ? kj::Own<Budget::Account>() : kj::addRef(*account)};
}

ForwardedCalls::Call::Call(ForwardedCalls& calls, const Client& client, size_t size)
    : client(kj::str(client.name)), privileged(client.privileged), bytes(kj::max(size, kLeast)) {
  auto& limits = calls.limits;
  auto own = calls.byClient.find(client.name).map([](Used& u) { return u; }).orDefault(Used());
  if (own.calls >= limits.perClient.calls || own.bytes + bytes > limits.perClient.bytes) {
    fail(ErrorKind::kResourceExhausted,
         kj::str(client.name, " has ", own.calls, " calls of ", own.bytes, " bytes to ", calls.node,
                 " under way; at most ", limits.perClient.calls, " of ", limits.perClient.bytes,
                 " bytes are forwarded for one client"));
  }
  auto tooMany = [&](const Used& used, unsigned mostCalls, size_t mostBytes) {
    return used.calls >= mostCalls || used.bytes + bytes > mostBytes;
  };
  if (tooMany(calls.all, limits.inTotal.calls, limits.inTotal.bytes) ||
      (!privileged && tooMany(calls.byUsual, limits.inTotal.calls - limits.reserve.calls,
                              limits.inTotal.bytes - limits.reserve.bytes))) {
    fail(ErrorKind::kResourceExhausted,
         kj::str(calls.all.calls, " calls to ", calls.node,
                 " are under way, which is the limit for all clients; retry later"));
  }
  this->calls = kj::addRef(calls);
  calls.change(client.name, privileged, 1, static_cast<ptrdiff_t>(bytes));
}

ForwardedCalls::Call::~Call() noexcept(false) {
  if (calls.get() == nullptr) return;
  calls->change(client, privileged, -1, -static_cast<ptrdiff_t>(bytes));
}

void ForwardedCalls::change(kj::StringPtr client, bool privileged, int calls, ptrdiff_t bytes) {
  auto add = [&](Used& used) {
    used.calls += calls;
    used.bytes += bytes;
    return used.calls == 0;
  };
  add(all);
  if (!privileged) add(byUsual);
  auto& own = byClient.findOrCreate(
      client, [&]() { return decltype(byClient)::Entry{kj::str(client), Used()}; });
  if (add(own)) byClient.erase(client);
}

kj::Own<ForwardedCalls::Call> ForwardedCalls::begin(const Client& client, size_t bytes) {
  return kj::refcounted<Call>(*this, client, bytes);
}

capnp::Capability::Client ForwardedCalls::counted(capnp::Capability::Client target, Client client,
                                                  bool& passes) {
  return capnp::Capability::Client(
      kj::refcounted<CountedHook>(ClientHook::from(kj::mv(target)), passes, *this, kj::mv(client)));
}

capnp::Capability::Client charged(capnp::Capability::Client target,
                                  kj::Own<Budget::Account> account, bool& passes) {
  return capnp::Capability::Client(
      kj::refcounted<ChargedHook>(ClientHook::from(kj::mv(target)), passes, kj::mv(account)));
}

}  // namespace talos::apid
