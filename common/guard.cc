#include "common/guard.h"

#include <capnp/message.h>
#include <capnp/rpc.capnp.h>

#include "common/error.h"
#include "common/tls.h"

namespace talos {
namespace {

// Big enough for a batch of small calls; larger messages get a buffer of their own.
constexpr size_t kBufferWords = 2048;

}  // namespace

GuardedStream::GuardedStream(kj::AsyncIoStream& stream, Limits limits, kj::String name)
    : inner(stream, capnp::IncomingRpcMessage::getShortLivedCallback(), kBufferWords),
      limits(limits),
      name(kj::mv(name)),
      failing(nullptr) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  failed = kj::mv(paf.fulfiller);
  failing = paf.promise.fork();
}

kj::Maybe<kj::StringPtr> GuardedStream::failure() const {
  return failureText.map([](const kj::String& text) -> kj::StringPtr { return text; });
}

void GuardedStream::failWith(kj::Exception&& e) {
  if (e.getType() == kj::Exception::Type::DISCONNECTED) sawEnd = true;
  if (failureText == nullptr) failureText = messageOf(e);
  failed->fulfill();
  if (name.size() == 0) kj::throwFatalException(kj::mv(e));
  bool gone = e.getType() == kj::Exception::Type::DISCONNECTED;
  auto cause = gone ? kj::str("the connection was lost") : tlsReason(e);
  fail(gone ? ErrorKind::kUnavailable : ErrorKind::kUnauthenticated, kj::str(name, ": ", cause));
}

void GuardedStream::received(capnp::MessageReader& reader) {
  auto message = reader.getRoot<capnp::rpc::Message>();
  switch (message.which()) {
    case capnp::rpc::Message::CALL:
      ask(message.getCall().getQuestionId());
      break;
    case capnp::rpc::Message::BOOTSTRAP:
      ask(message.getBootstrap().getQuestionId());
      break;
    case capnp::rpc::Message::FINISH:
      questions.eraseMatch(message.getFinish().getQuestionId());
      break;
    default:
      break;
  }
}

void GuardedStream::ask(uint32_t question) {
  questions.upsert(question, [](uint32_t&, uint32_t&&) {});
  if (questions.size() > limits.questions) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("more than ", limits.questions, " calls of one connection at once"));
  }
}

// An answer without capabilities ends its question by itself.
size_t GuardedStream::sent(kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) {
  capnp::SegmentArrayMessageReader reader(segments);
  auto message = reader.getRoot<capnp::rpc::Message>();
  if (message.isReturn() && message.getReturn().getNoFinishNeeded()) {
    questions.eraseMatch(message.getReturn().getAnswerId());
  }
  size_t words = 0;
  for (auto& segment : segments) words += segment.size();
  return words * sizeof(capnp::word);
}

kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> GuardedStream::tryReadMessage(
    kj::ArrayPtr<kj::AutoCloseFd> fdSpace, capnp::ReaderOptions options,
    kj::ArrayPtr<capnp::word> scratchSpace) {
  // Whenever something is queued a write is under way, and its end looks here again.
  auto queued = [this]() {
    KJ_IF_MAYBE (n, network) {
      return n->getCurrentQueueSize() + writing;
    }
    return writing;
  };
  while (queued() > limits.queuedBytes) {
    auto paf = kj::newPromiseAndFulfiller<void>();
    drained = kj::mv(paf.fulfiller);
    co_await paf.promise;
  }
  auto result = co_await inner.tryReadMessage(fdSpace, options, scratchSpace)
                    .then([this](kj::Maybe<capnp::MessageReaderAndFds>&& read) {
                      KJ_IF_MAYBE (message, read) {
                        received(*message->reader);
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
  co_return kj::mv(result);
}

kj::Promise<void> GuardedStream::written(kj::Promise<void> write, size_t bytes) {
  writing += bytes;
  co_await write.catch_([this](kj::Exception&& e) { failWith(kj::mv(e)); });
  writing -= bytes;
  KJ_IF_MAYBE (waiting, drained) {
    auto fulfiller = kj::mv(*waiting);
    drained = nullptr;
    fulfiller->fulfill();
  }
}

kj::Promise<void> GuardedStream::writeMessage(
    kj::ArrayPtr<const int> fds, kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) {
  return written(inner.writeMessage(fds, segments), sent(segments));
}

kj::Promise<void> GuardedStream::writeMessages(
    kj::ArrayPtr<kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>>> messages) {
  size_t bytes = 0;
  for (auto& message : messages) bytes += sent(message);
  return written(inner.writeMessages(messages), bytes);
}

kj::Maybe<int> GuardedStream::getSendBufferSize() {
  return inner.getSendBufferSize();
}

kj::Promise<void> GuardedStream::end() {
  return inner.end();
}

}  // namespace talos
