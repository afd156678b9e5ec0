// A stream of Cap'n Proto messages from a peer that is not trusted to behave.
//
// Cap'n Proto bounds the size of a message and the words of calls in flight. It leaves five things
// to the peer: how many answers the peer keeps alive (each call or bootstrap that it never finishes
// costs a table entry, and the whole answer if the answer has capabilities), how many capabilities
// from those answers it never releases, how many of its own capabilities it puts into one message,
// how many messages it sends that start no call, and whether it reads what is sent to it. This
// stream closes the connection of a peer with more unfinished questions than `questions`, with more
// than `capabilities` of ours, with a message of more than kMostDescriptors capabilities, or with
// more messages that start no call than calls and answers give rise to (IdleMessageBudget). While
// more than `queuedBytes` wait to be sent, a server reads nothing more from its peer, and a client
// nothing while four times as much waits; a peer that reads none of the waiting bytes for kStuck
// loses its connection too. The limits hold for servers and clients: a hostile server costs its
// client no more. A client names its server, so that every call that is lost with the connection
// fails with that name and the cause. With an account (budget.h) all connections of a client
// together have a limit as well, answers that it has not finished count, and so does the work of
// small messages (Turns of budget.h). A large message has to make progress: 256 KiB in 30 s. A
// server that exits calls drain(): calls under way are answered, and no new one is started.
#pragma once

#include <capnp/rpc-twoparty.h>
#include <capnp/rpc.capnp.h>
#include <capnp/serialize-async.h>
#include <kj/map.h>
#include <kj/timer.h>

#include "common/base/signal.h"
#include "common/base/waits.h"
#include "common/wire/budget.h"
#include "common/wire/call-observer.h"
#include "common/wire/token-bucket.h"

namespace talos {

// A budget for messages of Cap'n Proto that start no call: Finish, Release, Return, Resolve,
// Disembargo, Bootstrap, and messages that the library ignores or sends back. Each costs work and
// starts nothing that has its own limit. Honest peers send such messages in response to calls and
// answers of either side, so each call and answer adds at least as many tokens as it can cause
// messages. In addition, the budget has a burst, which refills slowly. A bootstrap and its end add
// nothing, because a peer can repeat them at will. Pure.
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

class BoundedMessageStream final : public capnp::MessageStream, private Budget::Queue {
 public:
  struct Limits {
    unsigned questions;
    unsigned capabilities;
    size_t queuedBytes;
    uint64_t messageWords;
  };
  // Limit of the capabilities in one message. Our messages have at most two.
  static constexpr unsigned kMostDescriptors = 64;
  // Time after which a peer that reads nothing is disconnected. TCP gives up on a vanished peer
  // only after two minutes; a slow reader reads something within this time.
  static constexpr auto kStuck = 10 * kj::SECONDS;

  // With a name (a client's server), the end of the stream is a failure too. The observer is
  // notified of the peer's calls.
  BoundedMessageStream(kj::AsyncIoStream& stream, kj::Timer& timer, Limits limits,
                       kj::String name = nullptr, kj::Own<Budget::Account> account = {},
                       kj::Own<CallObserver> observer = {});
  ~BoundedMessageStream() noexcept(false);

  // Sets the network whose queue counts; call it before the first message is read.
  void watch(capnp::TwoPartyVatNetwork& network) { this->network = network; }

  // Returns the error after which nothing more can be read or written; nullptr before such an error
  // and after an orderly end.
  kj::Maybe<kj::StringPtr> failure() const;
  // Returns true if either side has closed the connection.
  bool ended() const { return sawEnd || drained; }
  // Returns true if the failure is that the peer reads nothing: it would not read an error either.
  bool peerStuck() const { return takesNothing; }
  // Resolves once failure() is set.
  kj::Promise<void> onFailure() { return failing.addBranch(); }
  // Closes our direction as soon as at least one call has arrived and all calls are answered: the
  // peer then sees the end after its last answer. Later calls are not started. Resolves when our
  // direction is closed.
  kj::Promise<void> drain();

  kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> tryReadMessage(
      kj::ArrayPtr<kj::AutoCloseFd> fdSpace, capnp::ReaderOptions options,
      kj::ArrayPtr<capnp::word> scratchSpace) override;
  kj::Promise<void> writeMessage(
      kj::ArrayPtr<const int> fds,
      kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) override;
  kj::Promise<void> writeMessages(
      kj::ArrayPtr<kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>>> messages) override;
  kj::Maybe<int> getSendBufferSize() override;
  kj::Promise<void> end() override;
  using MessageStream::tryReadMessage;
  using MessageStream::writeMessage;
  using MessageStream::writeMessages;

 private:
  class AccountedStream;
  using Hold = Budget::Account::Hold;
  kj::AsyncIoStream& stream;
  kj::Timer& timer;
  Limits limits;
  kj::String name;
  kj::Own<Budget::Account> account;  // or null
  kj::Own<CallObserver> observer;    // or null
  Turns ownTurns;                    // for a peer without an account
  IdleMessageBudget idleMessages;
  kj::Maybe<Hold> arriving;  // for the message that is being received, if it is large
  kj::Own<kj::AsyncIoStream> accounted;
  capnp::BufferedMessageStream inner;
  kj::Maybe<capnp::TwoPartyVatNetwork&> network;
  struct Question {
    bool answered = false;
    bool bootstrap = false;
    uint64_t interfaceId = 0;  // the interface of a call
    uint16_t methodId = 0;
    kj::TimePoint began = kj::origin<kj::TimePoint>();
    kj::Maybe<Wait> wait;  // for an observed call, until it is answered
    // Charge for the call until it is answered, then for its answer if that is kept.
    kj::Maybe<Hold> hold;
    kj::Array<uint32_t> exports;  // capabilities in its answer
  };
  kj::HashMap<uint32_t, Question> questions;  // calls and bootstraps that are not finished
  kj::HashMap<uint32_t, uint32_t> exports;    // references that the peer holds
  size_t writing = 0;                         // bytes that the stream has not written yet
  uint64_t writes = 0;                        // number of completed writes
  bool watched = false;                       // the watchdog runs
  kj::Promise<void> watchdog = nullptr;
  bool sawEnd = false;
  bool called = false, drained = false;
  kj::Maybe<kj::String> failureText;
  bool broken = false;  // the peer exceeded a limit
  bool takesNothing = false;
  kj::Own<kj::PromiseFulfiller<void>> failed;
  kj::ForkedPromise<void> failing;
  Signal sentSome, progressed;

  [[noreturn]] void failWith(kj::Exception&& e);
  [[noreturn]] void throwAs(kj::Exception&& e);
  kj::Promise<void> watchWrites();
  size_t queued() const override;
  bool full() const;
  void cutOff() override;
  kj::Promise<void> waitForQueue();
  bool allAnswered() const;
  Turns& turns() { return account.get() == nullptr ? ownTurns : account->turns; }
  void cutOff(kj::String error);
  void received(capnp::MessageReader& reader);
  void observe(const Question& question, kj::StringPtr result);
  Question& addQuestion(uint32_t question, bool bootstrap, kj::Maybe<Hold> hold);
  kj::Maybe<Hold> holdFor(capnp::MessageReader& reader);
  void finished(uint32_t question, bool releases);
  void answered(capnp::rpc::Return::Reader answer, size_t bytes);
  void released(uint32_t id, uint32_t references);
  size_t sent(kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments);
  kj::Promise<void> written(kj::Promise<void> write, size_t bytes);
};

}  // namespace talos
