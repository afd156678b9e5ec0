#include "common/wire/bounded-stream.h"

#include <capnp/message.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/net/forwarding-stream.h"
#include "common/tls/tls.h"

namespace talos {
namespace {

// A batch of small calls fits; a larger message gets its own buffer. Every connection keeps its
// buffer, even an idle one. The server's buffer is not smaller because closing a connection with
// unread bytes of the client makes TCP send a reset, and answers on their way are then lost.
constexpr size_t kServerBufferWords = 2048, kClientBufferWords = 512;

// A client stops reading when so many times `queuedBytes` wait; beyond this, it disconnects a
// server that reads nothing.
constexpr size_t kStuckFactor = 4;

// Limits the bytes of a stream that are on their way to its sink: a socket's buffer may hold
// megabytes, and a client that does not read occupies as much on each node that its streams pass.
constexpr int kMostWindow = 256 << 10;

// The answer as it was sent, and as it came from the node that it was forwarded from.
constexpr size_t kCopies = 2;

// A message whose size has been checked. Its content may be read more than once, so the limit of
// reading is another one.
class SizeCheckedMessage final : public capnp::MessageReader {
 public:
  SizeCheckedMessage(kj::Own<capnp::MessageReader> inner, capnp::ReaderOptions options)
      : MessageReader(options), inner(kj::mv(inner)) {}
  kj::ArrayPtr<const capnp::word> getSegment(capnp::uint id) override {
    return inner->getSegment(id);
  }

 private:
  kj::Own<capnp::MessageReader> inner;
};

bool isOverSize(const kj::Exception& e) {
  const char* text = e.getDescription().cStr();
  return strstr(text, "exceeds size limit") != nullptr ||
         strstr(text, "Message is too large") != nullptr;
}

unsigned descriptorsIn(capnp::rpc::Message::Reader message) {
  if (message.isCall()) return message.getCall().getParams().getCapTable().size();
  if (!message.isReturn() || !message.getReturn().isResults()) return 0;
  return message.getReturn().getResults().getCapTable().size();
}

// Returns the result of an answer. The types of exceptions have the same numbers on the wire
// (capnp/rpc.capnp) as in KJ.
kj::StringPtr resultOf(capnp::rpc::Return::Reader answer) {
  if (answer.isCanceled()) return CallObserver::kCancelled;
  if (!answer.isException()) return CallObserver::kOk;
  auto failure = answer.getException();
  auto type = static_cast<kj::Exception::Type>(failure.getType());
  return nameOf(kindOf(kj::Exception(type, "", 0, kj::str(failure.getReason()))));
}

}  // namespace

// A message that exceeds the buffer is read into memory of the size that the peer announced: the
// account is charged first. Bytes count as work (Turns of budget.h).
class BoundedMessageStream::AccountedStream final : public ForwardingStream {
 public:
  AccountedStream(kj::AsyncIoStream& inner, kj::Timer& timer, kj::Maybe<Budget::Account&> account,
                  Turns& turns, kj::Maybe<Hold>& arriving)
      : ForwardingStream(inner), timer(timer), account(account), turns(turns), arriving(arriving) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t least, size_t most) override {
    return kj::evalNow([&]() -> kj::Promise<size_t> {
      KJ_IF_MAYBE (a, account) {
        if (least > kServerBufferWords * sizeof(capnp::word)) arriving.emplace(a->hold(least));
      }
      if (least > kPart) return readInParts(static_cast<kj::byte*>(buffer), least);
      if (turns.admits(timer.now())) return counted(inner->tryRead(buffer, least, most));
      return turns.next(timer).then(
          [this, buffer, least, most]() { return counted(inner->tryRead(buffer, least, most)); });
    });
  }

 private:
  static constexpr size_t kPart = Turns::kUnits * Turns::kUnitBytes;
  // Time for kPart bytes; without it a peer that announces a large message and sends nothing would
  // occupy the memory held for it.
  static constexpr auto kPartTimeout = 30 * kj::SECONDS;

  kj::Timer& timer;
  kj::Maybe<Budget::Account&> account;
  Turns& turns;
  kj::Maybe<Hold>& arriving;

  kj::Promise<size_t> counted(kj::Promise<size_t> read) {
    return read.then([this](size_t size) {
      turns.spend(size / Turns::kUnitBytes);
      return size;
    });
  }
  kj::Promise<size_t> readInParts(kj::byte* buffer, size_t size) {
    size_t done = 0;
    while (done < size) {
      co_await turns.next(timer);
      auto part = kj::min(kPart, size - done);
      auto read = co_await within(
          timer, kPartTimeout, inner->tryRead(buffer + done, part, part),
          kj::str("a message was not continued within ", kPartTimeout / kj::SECONDS, " s"));
      turns.spend(read / Turns::kUnitBytes);
      done += read;
      if (read < part) break;  // the end
    }
    co_return done;
  }
};

BoundedMessageStream::BoundedMessageStream(kj::AsyncIoStream& stream, kj::Timer& timer,
                                           Limits limits, kj::String name,
                                           kj::Own<Budget::Account> a, kj::Own<CallObserver> o)
    : stream(stream),
      timer(timer),
      limits(limits),
      name(kj::mv(name)),
      account(kj::mv(a)),
      observer(kj::mv(o)),
      idleMessages(timer.now()),
      accounted(kj::heap<AccountedStream>(
          stream, timer, account.get() == nullptr ? kj::Maybe<Budget::Account&>() : *account,
          turns(), arriving)),
      inner(*accounted, capnp::IncomingRpcMessage::getShortLivedCallback(),
            this->name.size() > 0 ? kClientBufferWords : kServerBufferWords),
      failing(nullptr) {
  if (account.get() != nullptr) account->add(*this);
  auto paf = kj::newPromiseAndFulfiller<void>();
  failed = kj::mv(paf.fulfiller);
  failing = paf.promise.fork();
}

BoundedMessageStream::~BoundedMessageStream() noexcept(false) {
  for (auto& entry : questions) observe(entry.value, CallObserver::kCancelled);
  if (account.get() != nullptr) account->remove(*this);
}

kj::Maybe<kj::StringPtr> BoundedMessageStream::failure() const {
  return failureText.map([](const kj::String& text) -> kj::StringPtr { return text; });
}

void BoundedMessageStream::failWith(kj::Exception&& e) {
  if (e.getType() == kj::Exception::Type::DISCONNECTED) sawEnd = true;
  if (failureText == nullptr) {
    failureText = isOverSize(e) ? kj::str("a message is larger than ",
                                          limits.messageWords * sizeof(capnp::word), " bytes")
                                : messageOf(e);
    // The first error is the cause; later ones follow from it.
    broken = isOverSize(e) || kindOf(e) == ErrorKind::kResourceExhausted;
  }
  failed->fulfill();
  throwAs(kj::mv(e));
}

// Throws the error for callers on this connection.
void BoundedMessageStream::throwAs(kj::Exception&& e) {
  if (name.size() == 0) kj::throwFatalException(kj::mv(e));
  if (broken) fail(ErrorKind::kUnavailable, kj::str(name, ": ", KJ_ASSERT_NONNULL(failureText)));
  bool gone = e.getType() == kj::Exception::Type::DISCONNECTED;
  auto cause = gone ? kj::str("the connection was lost") : tlsErrorText(e);
  fail(gone ? ErrorKind::kUnavailable : ErrorKind::kUnauthenticated, kj::str(name, ": ", cause));
}

// Charges the account for a message of a client. A server's answers are charged only while they
// arrive: code that keeps an answer charges for it there.
kj::Maybe<Budget::Account::Hold> BoundedMessageStream::holdFor(capnp::MessageReader& reader) {
  if (account.get() == nullptr) return nullptr;
  size_t bytes = reader.sizeInWords() * sizeof(capnp::word);
  account->received(bytes);
  if (name.size() > 0) {
    arriving = nullptr;
    return nullptr;
  }
  KJ_IF_MAYBE (held, arriving) {
    kj::Maybe<Hold> taken = kj::mv(*held);
    arriving = nullptr;
    return taken;
  }
  return account->hold(bytes);
}

void BoundedMessageStream::received(capnp::MessageReader& reader) {
  auto message = reader.getRoot<capnp::rpc::Message>();  // first: it validates the message
  turns().spend(1);
  auto hold = holdFor(reader);
  auto descriptors = descriptorsIn(message);
  if (descriptors > kMostDescriptors) {
    fail(ErrorKind::kResourceExhausted,
         kj::str(descriptors, " capabilities in one message; at most ", kMostDescriptors));
  }
  if (!idleMessages.received(message, timer.now())) {
    fail(ErrorKind::kResourceExhausted, "too many messages that start no call");
  }
  switch (message.which()) {
    case capnp::rpc::Message::CALL: {
      auto call = message.getCall();
      auto& question = addQuestion(call.getQuestionId(), false, kj::mv(hold));
      question.interfaceId = call.getInterfaceId();
      question.methodId = call.getMethodId();
      question.began = timer.now();
      if (observer.get() != nullptr) {
        question.wait = Wait(observer->describe(question.interfaceId, question.methodId));
      }
      break;
    }
    case capnp::rpc::Message::BOOTSTRAP:
      addQuestion(message.getBootstrap().getQuestionId(), true, kj::mv(hold));
      break;
    case capnp::rpc::Message::FINISH:
      finished(message.getFinish().getQuestionId(), message.getFinish().getReleaseResultCaps());
      break;
    case capnp::rpc::Message::RELEASE:
      released(message.getRelease().getId(), message.getRelease().getReferenceCount());
      break;
    default:
      break;
  }
  if (exports.size() > limits.capabilities) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("more than ", limits.capabilities, " unreleased capabilities on one connection"));
  }
}

// Reports the end of a call that has not been answered yet.
void BoundedMessageStream::observe(const Question& question, kj::StringPtr result) {
  if (observer.get() == nullptr || question.bootstrap || question.answered) return;
  observer->ended(question.interfaceId, question.methodId, result, timer.now() - question.began);
}

BoundedMessageStream::Question& BoundedMessageStream::addQuestion(uint32_t question, bool bootstrap,
                                                                  kj::Maybe<Hold> hold) {
  if (drained) fail(ErrorKind::kUnavailable, "the server is exiting");
  called = true;
  auto& entry = questions.findOrCreate(
      question, [&]() { return decltype(questions)::Entry{question, Question()}; });
  entry.bootstrap = bootstrap;
  KJ_IF_MAYBE (held, hold) {
    entry.hold.emplace(kj::mv(*held));
  }
  if (questions.size() > limits.questions) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("more than ", limits.questions, " calls at once on one connection"));
  }
  return entry;
}

void BoundedMessageStream::finished(uint32_t question, bool releases) {
  KJ_IF_MAYBE (entry, questions.find(question)) {
    observe(*entry, CallObserver::kCancelled);
    if (releases) {
      for (auto id : entry->exports) released(id, 1);
    }
    questions.erase(question);
  }
  progressed.raise();
}

void BoundedMessageStream::released(uint32_t id, uint32_t references) {
  KJ_IF_MAYBE (held, exports.find(id)) {
    *held -= kj::min(*held, references);
    if (*held == 0) exports.erase(id);
  }
}

void BoundedMessageStream::answered(capnp::rpc::Return::Reader answer, size_t bytes) {
  if (answer.getNoFinishNeeded()) {  // it has no capabilities, so its question ends with it
    questions.erase(answer.getAnswerId());
    return;
  }
  KJ_IF_MAYBE (question, questions.find(answer.getAnswerId())) {
    question->answered = true;
    question->wait = nullptr;
    question->hold = nullptr;
    kj::Vector<uint32_t> given;
    if (answer.isResults()) {
      for (auto entry : answer.getResults().getCapTable()) {
        if (entry.isSenderHosted()) given.add(entry.getSenderHosted());
        if (entry.isSenderPromise()) given.add(entry.getSenderPromise());
      }
    }
    for (auto id : given) exports.upsert(id, 1, [](uint32_t& held, uint32_t) { ++held; });
    question->exports = given.releaseAsArray();
    if (account.get() == nullptr || name.size() > 0) return;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&]() { question->hold.emplace(account->hold(kCopies * bytes)); })) {
      cutOff(messageOf(*e));
    }
  }
}

size_t BoundedMessageStream::sent(kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) {
  capnp::SegmentArrayMessageReader reader(segments);
  auto message = reader.getRoot<capnp::rpc::Message>();
  size_t words = 0;
  for (auto& segment : segments) words += segment.size();
  auto bytes = words * sizeof(capnp::word);
  bool awaited = false;
  if (message.isReturn()) {
    KJ_IF_MAYBE (question, questions.find(message.getReturn().getAnswerId())) {
      awaited = !question->bootstrap;
      observe(*question, resultOf(message.getReturn()));
    }
    answered(message.getReturn(), bytes);
  }
  idleMessages.sent(message, awaited);
  return bytes;
}

size_t BoundedMessageStream::queued() const {
  KJ_IF_MAYBE (n, network) {
    return n->getCurrentQueueSize() + writing;
  }
  return writing;
}

// Returns true if nothing more may be read. A server's queue grows by what it reads. A client
// continues to read: if neither side read before the other one did, both would wait for ever.
bool BoundedMessageStream::full() const {
  return queued() > (name.size() > 0 ? kStuckFactor : 1) * limits.queuedBytes;
}

// Waits until the queue is not full. While it is, a write is under way, whose end raises the
// signal.
kj::Promise<void> BoundedMessageStream::waitForQueue() {
  while (full()) {
    co_await sentSome.next();
    if (broken) throwAs(KJ_EXCEPTION(DISCONNECTED, "the peer does not read"));
  }
}

bool BoundedMessageStream::allAnswered() const {
  if (!called || queued() > 0) return false;
  for (auto& entry : questions) {
    if (!entry.value.answered) return false;
  }
  return true;
}

kj::Promise<void> BoundedMessageStream::drain() {
  while (!allAnswered()) {
    co_await progressed.next();
    co_await kj::evalLast([]() {});  // the network removes the message just written from its queue
  }
  drained = true;
  co_await inner.end();
}

// Not a coroutine, because every idle connection waits in this function and a frame has 1.5 KiB.
kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> BoundedMessageStream::tryReadMessage(
    kj::ArrayPtr<kj::AutoCloseFd> fdSpace, capnp::ReaderOptions options,
    kj::ArrayPtr<capnp::word> scratchSpace) {
  bool waits = full();
  if (waits || !turns().admits(timer.now())) {
    return (waits ? waitForQueue() : turns().next(timer))
        .then([this, fdSpace, options, scratchSpace]() {
          return tryReadMessage(fdSpace, options, scratchSpace);
        });
  }
  auto sized = options;
  sized.traversalLimitInWords = limits.messageWords;
  return inner.tryReadMessage(fdSpace, sized, scratchSpace)
      .then([this, options](kj::Maybe<capnp::MessageReaderAndFds>&& read) {
        KJ_IF_MAYBE (message, read) {
          received(*message->reader);
          if (options.traversalLimitInWords > limits.messageWords) {
            message->reader = kj::heap<SizeCheckedMessage>(kj::mv(message->reader), options);
          }
        } else {
          sawEnd = true;
          if (name.size() > 0) {
            kj::throwFatalException(KJ_EXCEPTION(DISCONNECTED, "end of stream"));
          }
        }
        return kj::mv(read);
      })
      .catch_([this](kj::Exception&& e) -> kj::Maybe<capnp::MessageReaderAndFds> {
        failWith(kj::mv(e));
      });
}

kj::Promise<void> BoundedMessageStream::written(kj::Promise<void> write, size_t bytes) {
  writing += bytes;
  if (!watched) watchdog = watchWrites().eagerlyEvaluate(nullptr);
  co_await write.catch_([this](kj::Exception&& e) { failWith(kj::mv(e)); });
  ++writes;
  writing -= bytes;
  sentSome.raise();
  progressed.raise();
}

// Checks the queue of messages that wait for the current write, periodically while a write is under
// way, because the queue raises no event.
kj::Promise<void> BoundedMessageStream::watchWrites() {
  watched = true;
  KJ_DEFER(watched = false);
  for (;;) {
    auto before = writes;
    auto wasQueued = queued();
    co_await timer.afterDelay(kStuck);
    if (writing == 0) co_return;
    if (writes != before || kj::min(queued(), wasQueued) <= kStuckFactor * limits.queuedBytes) {
      continue;
    }
    cutOff();
    co_return;
  }
}

void BoundedMessageStream::cutOff() {
  cutOff(kj::str("the peer does not read what is sent to it"));
}

void BoundedMessageStream::cutOff(kj::String error) {
  if (failureText == nullptr) failureText = kj::mv(error);
  broken = takesNothing = true;
  failed->fulfill();
  // Makes a pending read fail. It throws if the peer has just reset the connection, which must not
  // reach the caller: this may be called on behalf of another connection.
  kj::runCatchingExceptions([&]() { stream.abortRead(); });
  sentSome.raise();
}

kj::Promise<void> BoundedMessageStream::writeMessage(
    kj::ArrayPtr<const int> fds, kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) {
  return written(inner.writeMessage(fds, segments), sent(segments));
}

kj::Promise<void> BoundedMessageStream::writeMessages(
    kj::ArrayPtr<kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>>> messages) {
  size_t bytes = 0;
  for (auto& message : messages) bytes += sent(message);
  return written(inner.writeMessages(messages), bytes);
}

kj::Maybe<int> BoundedMessageStream::getSendBufferSize() {
  return inner.getSendBufferSize().map([](int size) { return kj::min(size, kMostWindow); });
}

kj::Promise<void> BoundedMessageStream::end() {
  return drained ? kj::READY_NOW : inner.end();
}

}  // namespace talos
