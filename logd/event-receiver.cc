#include "logd/event-receiver.h"

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/log.h"
#include "common/wire/event-line.h"

namespace talos::logd {
namespace {

constexpr kj::StringPtr kPublish = "/events.EventSinkService/Publish"_kj;
// A receiver that answers no ping for this time is dialled again.
constexpr auto kSilence = 30 * kj::SECONDS;
// An EventResponse is empty; the receiver is foreign, and logd has little memory.
constexpr size_t kMostAnswer = 4096;

}  // namespace

EventReceiver::EventReceiver(kj::Timer& timer, kj::String at, grpc::Client::Dial dial)
    : address(kj::mv(at)),
      client(timer, kj::str("the receiver"), kj::mv(dial),
             grpc::ConnectionOptions{
                 .authority = kj::str(address), .silence = kSilence, .mostAnswer = kMostAnswer}) {}

kj::Maybe<EventReceiver::Message> EventReceiver::messageOf(kj::ArrayPtr<const char> line) {
  kj::Maybe<Message> message;
  bool whole = decodeEvent(line, [&](rpc::Event::Reader event) {
    KJ_IF_MAYBE (bytes, messages.of(event)) {
      message = Message{kj::str(event.getId()), kj::mv(*bytes)};
    }
  });
  if (!whole) {
    ++answers.refused;
    answers.error = kj::str("an event does not fit into a line of a log");
  }
  return message;
}

void EventReceiver::warnOfLost(const Spool::Batch& of, uint64_t dropped) {
  auto warn = [&](kj::StringPtr error) {
    log::warn("events do not reach their receiver", {{"address", address}, {"error", error}});
  };
  if (dropped > 0) {
    warn(kj::str(dropped, " events were dropped: the buffer for this receiver was full"));
  }
  if (of.missed || of.damaged > 0) warn(firstLine(of.lines));
}

kj::Promise<EventReceiver::Answers> EventReceiver::publish(const Spool::Batch& next,
                                                           uint64_t dropped) {
  if (batch != next.next) {
    batch = next.next;
    published = 0;
    answers = Answers();
  }
  bool report = next.missed || next.damaged > 0;  // the lines say what was lost
  size_t number = 0;
  for (auto line : Lines(next.lines)) {
    if (++number <= published || report) continue;
    KJ_IF_MAYBE (message, messageOf(line)) {
      KJ_IF_MAYBE (waiting, status) {
        if (waiting->id < message->id) co_await sendStatus(answers);
      }
      co_await send(message->bytes, answers);
    }
    published = number;
  }
  warnOfLost(next, dropped);
  co_return Answers{answers.all, answers.refused, kj::str(answers.error)};
}

kj::Promise<void> EventReceiver::send(kj::ArrayPtr<const kj::byte> message, Answers& answers) {
  kj::Maybe<kj::Exception> failure;
  try {
    co_await client.unary(kPublish, nullptr, kEventDeadline, kj::heapArray(message));
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  KJ_IF_MAYBE (e, failure) {
    auto kind = kindOf(*e);
    if (kind == ErrorKind::kInvalidArgument) {
      ++answers.refused;
      answers.error = talos::messageOf(*e);
    } else if (kind != ErrorKind::kConflict) {  // a conflict: the receiver has this id already
      kj::throwFatalException(kj::mv(*e));
    }
  }
  ++answers.all;
}

bool EventReceiver::setStatus(Change change, rpc::MachineStatusSpec::Reader changed) {
  if (change == newest) return false;
  newest = change;
  auto id = grpcapi::eventIdAt(change.updated);
  auto bytes = messages.of(changed, id);
  status = Message{kj::mv(id), kj::mv(bytes)};
  return true;
}

// A newer status may replace the one that is being published, and then waits.
kj::Promise<void> EventReceiver::sendStatus(Answers& answers) {
  auto& waiting = KJ_ASSERT_NONNULL(status);
  auto change = newest;
  Answers own;
  co_await send(kj::heapArray(waiting.bytes.asPtr()), own);
  if (own.refused > 0) {
    log::warn("the receiver refused the machine's status",
              {{"address", address}, {"error", own.error}});
  }
  answers.all += own.all;
  if (newest == change) status = nullptr;
}

kj::Promise<EventReceiver::Answers> EventReceiver::publishStatus() {
  Answers answers;
  if (status != nullptr) co_await sendStatus(answers);
  co_return kj::mv(answers);
}

kj::Own<EventReceiver> eventReceiver(ReceiverDependencies deps, ReceiverAddress address) {
  bool ipv6 = address.host.findFirst(':') != nullptr;
  auto authority = kj::str(ipv6 ? "[" : "", address.host, ipv6 ? "]" : "", ":", address.port);
  return kj::heap<EventReceiver>(
      deps.timer, kj::mv(authority),
      [deps, address = kj::mv(address)]() { return dialReceiver(deps, address, ""); });
}

}  // namespace talos::logd
