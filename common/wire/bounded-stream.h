// A stream of Cap'n Proto messages from a peer that is not trusted to behave.
//
// Cap'n Proto bounds the size of a message and the words of calls in flight. It leaves five things
// to the peer: how many answers it keeps alive (a call or bootstrap that it never finishes costs a
// table entry each, and the whole answer if that has capabilities), how many capabilities from
// those answers it never releases, how many of its own it puts into one message, how many messages
// it sends that start no call, and whether it reads what it is sent. This stream closes the
// connection of a peer with more unfinished questions than `questions`, with more than
// `capabilities` of ours, with a message of more than kMostDescriptors of its own, or with more
// messages that start no call than calls and answers give rise to (idle-message-budget.h). While
// more than `queuedBytes` wait to be sent, a server reads nothing more from its peer, and a client
// nothing while four times as much waits; a peer that takes none of that for kStuck loses its
// connection too. The limits hold for servers and clients: a hostile server costs its client no
// more. A client names its server, so that every call that is lost with the connection fails with
// that name and the cause. With an account (budget.h) all connections of a client together have a
// limit as well, answers that it has not finished count, and so does the work of small messages
// (turns.h). A large message has to make progress: 256 KiB in 30 s. A server that exits calls
// drain(): calls under way are answered, and no new one is started.
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
#include "common/wire/idle-message-budget.h"

namespace talos {

class BoundedMessageStream final : public capnp::MessageStream, private Budget::Queue {
 public:
  struct Limits {
    unsigned questions;
    unsigned capabilities;
    size_t queuedBytes;
    uint64_t messageWords;
  };
  // Capabilities in one message. Ours have at most two.
  static constexpr unsigned kMostDescriptors = 64;
  // TCP gives up on a peer that has vanished after two minutes; a slow reader takes something in
  // this time.
  static constexpr auto kStuck = 10 * kj::SECONDS;

  // With a name (a client's server) the end of the stream is a failure too. The observer sees the
  // calls of the peer.
  BoundedMessageStream(kj::AsyncIoStream& stream, kj::Timer& timer, Limits limits,
                       kj::String name = nullptr, kj::Own<Budget::Account> account = {},
                       kj::Own<CallObserver> observer = {});
  ~BoundedMessageStream() noexcept(false);

  // Sets the network whose queue counts; call it before the first message is read.
  void watch(capnp::TwoPartyVatNetwork& network) { this->network = network; }

  // The error for which no more can be read or written. None before it and after an orderly end.
  kj::Maybe<kj::StringPtr> failure() const;
  // Either side has closed the connection.
  bool ended() const { return sawEnd || drained; }
  // The failure is that the peer reads nothing: it would not read an error either.
  bool peerStuck() const { return takesNothing; }
  // Resolves once failure() is set.
  kj::Promise<void> onFailure() { return failing.addBranch(); }
  // Closes our direction as soon as at least one call has arrived and all calls are answered: the
  // peer then sees the end behind its last answer. Later calls are not started. Resolves when our
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
  Turns ownTurns;                    // of a peer without an account
  IdleMessageBudget idleMessages;
  kj::Maybe<Hold> arriving;  // for the message that is being received, if it is large
  kj::Own<kj::AsyncIoStream> accounted;
  capnp::BufferedMessageStream inner;
  kj::Maybe<capnp::TwoPartyVatNetwork&> network;
  struct Question {
    bool answered = false;
    bool bootstrap = false;
    uint64_t interfaceId = 0;  // of a call
    uint16_t methodId = 0;
    kj::TimePoint began = kj::origin<kj::TimePoint>();
    kj::Maybe<Wait> wait;  // of an observed call, until it is answered
    // Of the call until it is answered, then of an answer that is kept.
    kj::Maybe<Hold> hold;
    kj::Array<uint32_t> exports;  // in its answer
  };
  kj::HashMap<uint32_t, Question> questions;  // not finished
  kj::HashMap<uint32_t, uint32_t> exports;    // that the peer got: references not released
  size_t writing = 0;                         // bytes given to the stream and not taken
  uint64_t writes = 0;                        // that are done
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
