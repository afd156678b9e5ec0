// A budget for messages of Cap'n Proto that start no call: Finish, Release, Return, Resolve,
// Disembargo, Bootstrap, and messages that the library ignores or sends back. Each costs work and
// starts nothing that has its own limit. Honest peers send such messages in response to calls and
// answers of either side, so each call and answer adds at least as many tokens as it can cause
// messages. In addition, the budget has a burst, which refills slowly. A bootstrap and its end add
// nothing, because a peer can repeat them at will. Pure.
#pragma once

#include <capnp/rpc.capnp.h>

#include "common/wire/token-bucket.h"

namespace talos {

class IdleMessageBudget {
 public:
  static constexpr int64_t kMost = 4096, kPerSecond = 100;

  explicit IdleMessageBudget(kj::TimePoint now) : tokens(now, kMost, kPerSecond) {}

  // Returns false if the peer has sent too many.
  bool received(capnp::rpc::Message::Reader message, kj::TimePoint now) {
    switch (message.which()) {
      case capnp::rpc::Message::CALL:  // its Finish, and a Release of its target
        tokens.earn(2 + kOfCapability * message.getCall().getParams().getCapTable().size());
        return true;
      case capnp::rpc::Message::RETURN:
        if (message.getReturn().isResults()) {
          tokens.earn(kOfCapability * message.getReturn().getResults().getCapTable().size());
        }
        return tokens.spend(1, now);
      default:
        return tokens.spend(1, now);
    }
  }

  // Notes a message to the peer. `awaited`: it is an answer to a call, not to a bootstrap, that the
  // peer has not finished before.
  void sent(capnp::rpc::Message::Reader message, bool awaited) {
    switch (message.which()) {
      case capnp::rpc::Message::BOOTSTRAP:
        return tokens.earn(kOfCapability + 1);
      case capnp::rpc::Message::CALL:
        return tokens.earn(2 + kOfCapability * message.getCall().getParams().getCapTable().size());
      case capnp::rpc::Message::RETURN: {
        if (!awaited) return;
        auto answer = message.getReturn();
        auto given = answer.isResults() ? answer.getResults().getCapTable().size() : 0;
        return tokens.earn(1 + kOfCapability * given);
      }
      case capnp::rpc::Message::RESOLVE:
        return tokens.earn(kOfCapability);
      case capnp::rpc::Message::DISEMBARGO:
        if (message.getDisembargo().getContext().isSenderLoopback()) tokens.earn(1);
        return;
      default:
        return;
    }
  }

 private:
  // Tokens per capability: for a resolution, a release and an embargo.
  static constexpr int64_t kOfCapability = 3;
  TokenBucket tokens;
};

}  // namespace talos
