#include "common/wire/one-call.h"

#include <kj/refcount.h>

namespace talos {
namespace {

using capnp::AnyPointer;
using capnp::CallContextHook;
using capnp::ClientHook;

class Hook final : public ClientHook, public kj::Refcounted {
 public:
  Hook(kj::Own<ClientHook> inner, kj::Own<OneCall> call)
      : inner(kj::mv(inner)), held(kj::mv(call)) {}

  capnp::Request<AnyPointer, AnyPointer> newCall(uint64_t interface, uint16_t method,
                                                 kj::Maybe<capnp::MessageSize> size,
                                                 CallHints hints) override {
    return inner->newCall(interface, method, size, hints);
  }
  VoidPromiseAndPipeline call(uint64_t interface, uint16_t method,
                              kj::Own<CallContextHook>&& context, CallHints hints) override {
    auto result = inner->call(interface, method, kj::mv(context), hints);
    auto& call = *held;
    auto promise = result.promise.then([&call]() { call.answered(); },
                                       [&call](kj::Exception&& e) {
                                         call.failed(e);
                                         kj::throwFatalException(kj::mv(e));
                                       });
    return {promise.attach(kj::mv(held)), kj::mv(result.pipeline)};
  }
  kj::Maybe<ClientHook&> getResolved() override { return nullptr; }
  kj::Maybe<kj::Promise<kj::Own<ClientHook>>> whenMoreResolved() override { return nullptr; }
  kj::Own<ClientHook> addRef() override { return kj::addRef(*this); }
  const void* getBrand() override { return &kBrand; }
  kj::Maybe<int> getFd() override { return nullptr; }

 private:
  static constexpr char kBrand = 0;
  kj::Own<ClientHook> inner;
  kj::Own<OneCall> held;
};

}  // namespace

capnp::Capability::Client forOneCall(capnp::Capability::Client target, kj::Own<OneCall> call) {
  return capnp::Capability::Client(
      kj::refcounted<Hook>(ClientHook::from(kj::mv(target)), kj::mv(call)));
}

}  // namespace talos
