// A revocable reference to an output, for sinks: a node may hold a sink for longer than its call
// lasts, and a promise of the output must not outlive that call. A method that makes a sink calls
// end() when its call ends.
#pragma once

#include <kj/refcount.h>

#include "apid/grpc/answer-output.h"

namespace talos::grpcapi {

class LentOutput final : public kj::Refcounted {
 public:
  explicit LentOutput(Output& output) : output(output) {}

  // Drops pending messages before it returns; refuses later ones.
  void end() {
    output = nullptr;
    canceler.cancel("the client has gone");
  }
  kj::Promise<void> send(kj::Array<kj::byte> message) {
    KJ_IF_MAYBE (to, output) return canceler.wrap(to->send(kj::mv(message)));
    return error(ErrorKind::kUnavailable, "the client has gone");
  }
  // Calls Output::charge() for an answer that a node keeps open while it waits for the client.
  AnswerCharge charge(capnp::MessageSize kept) {
    KJ_IF_MAYBE (to, output) return to->charge(kept);
    return AnswerCharge(nullptr);
  }
  bool ended() const { return output == nullptr; }

 private:
  kj::Maybe<Output&> output;
  kj::Canceler canceler;
};

}  // namespace talos::grpcapi
