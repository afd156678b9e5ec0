// Passes the bytes that a node sends to a function of the caller. The node may keep the capability
// longer than its call, so the destructor revokes it: the function is not called any more. Declare
// this object after the objects that the function uses.
#pragma once

#include <capnp/capability.h>
#include <kj/async.h>
#include <kj/function.h>

#include "rpc/stream.capnp.h"

namespace talos::talosctl {

class ReceivedBytes final : private rpc::ByteSink::Server {
 public:
  explicit ReceivedBytes(kj::Function<void(kj::ArrayPtr<const kj::byte>)> take)
      : take(kj::mv(take)), revocable(*this) {}
  KJ_DISALLOW_COPY_AND_MOVE(ReceivedBytes);

  rpc::ByteSink::Client sink() { return revocable.getClient(); }

 private:
  kj::Function<void(kj::ArrayPtr<const kj::byte>)> take;
  capnp::RevocableServer<rpc::ByteSink> revocable;

  kj::Promise<void> write(WriteContext context) override {
    take(context.getParams().getBytes());
    return kj::READY_NOW;
  }
};

// The error of a sink, such as a full disk. It is clearer than the error of the call that it ends.
class SinkFailure {
 public:
  template <typename F>
  void keeping(F&& take) {
    try {
      take();
    } catch (const kj::Exception& e) {
      if (first == nullptr) first = kj::cp(e);
      throw;
    }
  }
  // Waits for `call` and rejects with the sink's failure, if there was one. This object must
  // outlive the promise.
  kj::Promise<void> before(kj::Promise<void> call) {
    return call.then([this]() { rethrow(); },
                     [this](kj::Exception&& e) {
                       rethrow();
                       kj::throwFatalException(kj::mv(e));
                     });
  }

 private:
  kj::Maybe<kj::Exception> first;

  void rethrow() {
    KJ_IF_MAYBE (e, first) kj::throwFatalException(kj::cp(*e));
  }
};

}  // namespace talos::talosctl
