// An output, lent to a sink: the node that got the sink may hold it for longer than the call lasts
// that made it, and a promise of the output must not outlive that call. Whoever makes a sink ends
// this when its call does, however it does.
#pragma once

#include <kj/refcount.h>

#include "apid/grpc/grpc-method.h"

namespace talos::edge {

class LentOutput final : public kj::Refcounted {
 public:
  explicit LentOutput(Output& output) : output(output) {}

  // What is being sent is dropped before this returns; nothing more is.
  void end() {
    output = nullptr;
    canceler.cancel("the client has gone");
  }
  kj::Promise<void> send(kj::Array<kj::byte> message) {
    KJ_IF_MAYBE (to, output) return canceler.wrap(to->send(kj::mv(message)));
    return error(ErrorKind::kUnavailable, "the client has gone");
  }
  bool ended() const { return output == nullptr; }

 private:
  kj::Maybe<Output&> output;
  kj::Canceler canceler;
};

}  // namespace talos::edge
