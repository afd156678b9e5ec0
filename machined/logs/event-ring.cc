#include "machined/logs/event-ring.h"

#include <kj/refcount.h>
#include <kj/vector.h>

#include <tuple>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/log.h"
#include "common/base/signal.h"

namespace talos::machined {
namespace {

constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuv";
constexpr size_t kLength = 20;  // 96 bits and 4 zero bits, five a character
constexpr uint64_t kSecond = 1'000'000'000;

kj::Maybe<unsigned> valueOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'v') return c - 'a' + 10;
  return nullptr;
}

}  // namespace

kj::String EventId::toString() const {
  auto bits = (unsigned __int128){seconds} << 68 | (unsigned __int128){nanoseconds} << 36 |
              (unsigned __int128){serial} << 4;
  auto text = kj::heapString(kLength);
  for (size_t i = 0; i < kLength; ++i) text[i] = kDigits[(bits >> (5 * (kLength - 1 - i))) & 31];
  return text;
}

kj::Maybe<EventId> EventId::parse(kj::StringPtr text) {
  if (text.size() != kLength) return nullptr;
  unsigned __int128 bits = 0;
  for (char c : text) {
    KJ_IF_MAYBE (v, valueOf(c)) {
      bits = bits << 5 | *v;
    } else {
      return nullptr;
    }
  }
  return EventId{static_cast<uint32_t>(bits >> 68), static_cast<uint32_t>(bits >> 36),
                 static_cast<uint32_t>(bits >> 4)};
}

bool EventId::operator<(const EventId& o) const {
  return std::tie(seconds, nanoseconds, serial) < std::tie(o.seconds, o.nanoseconds, o.serial);
}

EventId EventIdMaker::next(kj::Date now) {
  auto ns = (now - kj::UNIX_EPOCH) / kj::NANOSECONDS;
  if (ns > 0 && static_cast<uint64_t>(ns) > last) last = ns;
  return {static_cast<uint32_t>(last / kSecond), static_cast<uint32_t>(last % kSecond), serial++};
}

void EventIdMaker::resume(const EventId& id) {
  last = id.seconds * kSecond + id.nanoseconds;
  serial = id.serial + 1;
}

namespace {

constexpr size_t kBatch = 64;  // events of one call: about 8 KiB
constexpr kj::StringPtr kRingName = "ring/events"_kj;

struct Entry {
  EventId id;
  uint64_t time;
  capnp::MallocMessageBuilder message{48};

  rpc::Event::Reader event() { return message.getRoot<rpc::Event>().asReader(); }
};

}  // namespace

// Counted, because each follower keeps it alive: a follower that outlives Events fails, but does
// not crash.
struct Events::Impl : public kj::Refcounted {
  Impl(const kj::Clock& clock, Process1& process1) : clock(clock) {
    ring.resize(kEventRing);
    KJ_IF_MAYBE (fd, process1.takeHeld(kRingName)) {
      KJ_IF_MAYBE (kept, LogRing::recover(kj::mv(*fd))) lines = kj::mv(*kept);
    }
    if (lines.get() != nullptr) {
      restoreEvents();
      return;
    }
    lines = kj::heap<LogRing>();
    held = process1.hold(kRingName, lines->file()).eagerlyEvaluate([](kj::Exception&& e) {
      log::error("cannot hold the ring of events; events are lost when machined restarts",
                 {{"error", messageOf(e)}});
    });
  }

  const kj::Clock& clock;
  EventIdMaker ids;
  kj::Own<LogRing> lines;
  kj::Promise<void> held = kj::READY_NOW;
  kj::Vector<kj::Own<Entry>> ring;  // the event number n is at n % kEventRing
  uint64_t next = 0;                // number of the next event
  Signal published;
  kj::Vector<kj::Own<kj::Function<void(rpc::Event::Reader)>>> listeners;

  // Restores the events that the predecessor published.
  void restoreEvents() {
    auto from = lines->tail(kEventRing), until = lines->newest();
    auto text = kj::heapArray<char>(until - from);
    lines->copy(from, text);
    for (auto line : Lines(text)) {
      decodeEvent(line, [&](rpc::Event::Reader event) {
        KJ_IF_MAYBE (id, EventId::parse(event.getId())) {
          auto entry = kj::heap<Entry>();
          entry->id = *id;
          entry->time = event.getTime();
          entry->message.setRoot(event);
          add(kj::mv(entry));
          ids.resume(*id);
        }
      });
    }
  }

  uint64_t add(kj::Own<Entry> entry) {
    if (next == 0) {
      firstSeconds = entry->id.seconds;
      firstNanoseconds = entry->id.nanoseconds;
    }
    ring[next % kEventRing] = kj::mv(entry);
    return next++;
  }

  uint64_t oldest() const { return next > kEventRing ? next - kEventRing : 0; }
  Entry& at(uint64_t number) { return *ring[number % kEventRing]; }

  // The first event that a follower gets, and the number of events that it has missed already.
  struct Start {
    uint64_t cursor, missed = 0;
  };

  Start startOf(rpc::Tail::Reader tail) {
    switch (tail.which()) {
      case rpc::Tail::NONE:
        return {next};
      case rpc::Tail::LAST: {
        auto last = tail.getLast();
        if (last < 0 || static_cast<uint64_t>(last) > next - oldest()) return {oldest()};
        return {next - last};
      }
      case rpc::Tail::AFTER:
        return startAfter(tail.getAfter());
      case rpc::Tail::SECONDS: {
        auto now = (clock.now() - kj::UNIX_EPOCH) / kj::NANOSECONDS;
        auto from =
            now / 1'000'000'000 < tail.getSeconds() ? 0 : now - tail.getSeconds() * 1'000'000'000;
        auto n = oldest();
        while (n < next && at(n).time < from) ++n;
        return {n};
      }
    }
    fail(ErrorKind::kInvalidArgument, "unknown kind of tail; use none, last, after or seconds");
  }

  Start startAfter(kj::StringPtr text) {
    KJ_IF_MAYBE (id, EventId::parse(text)) {
      auto n = oldest();
      while (n < next && !(*id < at(n).id)) ++n;
      if (n > oldest() || n == 0) return {n};
      // Everything in the ring is newer. IDs of this process carry their number; an older ID is the
      // predecessor's, and its follower missed all events that have left this ring.
      EventId first = at(n).id;
      uint32_t gap = first.serial - id->serial - 1;
      bool own = !(*id < EventId{firstSeconds, firstNanoseconds, 0});
      return {n, own ? gap : n};
    }
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", text, "\" is not a valid event id; use 20 characters of 0-9 and a-v"));
  }

  uint32_t firstSeconds = 0, firstNanoseconds = 0;

  kj::Promise<void> follow(Start start, rpc::EventSink::Client sink, bool once) {
    const auto now = next;
    auto self = kj::addRef(*this);
    auto cursor = start.cursor;
    auto missed = start.missed;
    for (;;) {
      if (cursor < oldest()) {
        missed += oldest() - cursor;
        cursor = oldest();
      }
      if (missed > 0) {
        auto request = sink.missedRequest();
        request.setCount(kj::mv(missed));
        missed = 0;
        co_await request.send();
      } else if (once && cursor >= now) {
        co_return;
      } else if (cursor == next) {
        co_await published.next();
      } else {
        auto count = kj::min(next - cursor, kBatch);
        auto fill = [&](auto list) {
          for (auto i : kj::zeroTo(count)) list.setWithCaveats(i, at(cursor + i).event());
        };
        if (once && cursor + count >= now) {
          // The end of the call must be the end of the events: this call is answered when it and
          // all calls before it were processed. A call of a streaming method returns earlier.
          constexpr uint16_t kEvents = 0;  // EventSink.events @0
          auto request =
              sink.typelessRequest(capnp::typeId<rpc::EventSink>(), kEvents, nullptr, {});
          fill(request.initAs<rpc::EventSink::EventsParams>().initEvents(count));
          co_await request.send().ignoreResult();
          co_return;
        }
        auto request = sink.eventsRequest();
        fill(request.initEvents(count));
        cursor += count;
        co_await request.send();
      }
    }
  }
};

Events::Events(const kj::Clock& clock, Process1& process1)
    : impl(kj::refcounted<Impl>(clock, process1)) {}
Events::~Events() noexcept(false) {}

void Events::publish(kj::Function<void(rpc::Event::Builder)> fill) {
  auto entry = kj::heap<Entry>();
  auto now = impl->clock.now();
  entry->id = impl->ids.next(now);
  entry->time = (now - kj::UNIX_EPOCH) / kj::NANOSECONDS;
  auto event = entry->message.initRoot<rpc::Event>();
  fill(event);
  event.setId(entry->id.toString());
  event.setTime(entry->time);
  impl->lines->append(encodeEvent(event.asReader()), [](auto) {});
  auto number = impl->add(kj::mv(entry));
  impl->published.raise();
  // By index, because a listener may publish, or add a listener.
  for (size_t i = 0; i < impl->listeners.size(); ++i) {
    if (number < impl->oldest()) break;
    (*impl->listeners[i])(impl->at(number).event());
  }
}

void Events::sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error, bool locked) {
  publish([&](rpc::Event::Builder event) {
    auto sequence = event.initSequence();
    sequence.setSequence(name);
    sequence.setAction(action);
    sequence.setError(error);
    sequence.setLocked(locked);
  });
}

void Events::phase(kj::StringPtr name, rpc::Action action) {
  publish([&](rpc::Event::Builder event) {
    auto phase = event.initPhase();
    phase.setName(name);
    phase.setAction(action);
  });
}

void Events::task(kj::StringPtr name, rpc::Action action) {
  publish([&](rpc::Event::Builder event) {
    auto task = event.initTask();
    task.setName(name);
    task.setAction(action);
  });
}

kj::Promise<void> Events::watch(rpc::Tail::Reader tail, rpc::EventSink::Client sink, bool once) {
  return impl->follow(impl->startOf(tail), kj::mv(sink), once);
}

const LogRing& Events::lines() const {
  return *impl->lines;
}

kj::Promise<void> Events::changed() {
  return impl->published.next();
}

void Events::onEvent(kj::Function<void(rpc::Event::Reader)> listener) {
  auto owned = kj::heap<kj::Function<void(rpc::Event::Reader)>>(kj::mv(listener));
  for (auto n = impl->oldest(); n < impl->next; ++n) (*owned)(impl->at(n).event());
  impl->listeners.add(kj::mv(owned));
}

}  // namespace talos::machined
