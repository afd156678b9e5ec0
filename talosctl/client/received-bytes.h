// Passes the bytes that a node sends to a function of the caller, which must outlive the call.
#pragma once

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

}  // namespace talos::talosctl
