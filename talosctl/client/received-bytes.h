// Passes the bytes that a node sends to a function of the caller, which must outlive the call.
#pragma once

#include <kj/async.h>
#include <kj/function.h>

#include "rpc/stream.capnp.h"

namespace talos::talosctl {

class ReceivedBytes final : public rpc::ByteSink::Server {
 public:
  explicit ReceivedBytes(kj::Function<void(kj::ArrayPtr<const kj::byte>)> take)
      : take(kj::mv(take)) {}
  kj::Promise<void> write(WriteContext context) override {
    take(context.getParams().getBytes());
    return kj::READY_NOW;
  }

 private:
  kj::Function<void(kj::ArrayPtr<const kj::byte>)> take;
};

// The error of a sink, such as a full disk: clearer than that of the call that it ends.
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
  // Rejects with the sink's failure, if there was one. This object must outlive the promise.
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
