// The ring of the newest 1000 machine events, and the clients that follow it.
//
// A follower has a cursor, not a queue: memory depends neither on the number of followers nor on
// their speed. A follower that is 1000 events late learns how many it missed and continues with the
// oldest remaining one.
//
// Process 1 holds every event too, as a line of a log ring ("ring/events": base64 of the message):
// a new brain has the events of its predecessor, and a follower continues at its position. A crash
// before process 1 holds the ring (the first moment of the first brain) loses it.
#pragma once

#include <capnp/message.h>
#include <kj/async.h>
#include <kj/function.h>
#include <kj/string.h>
#include <kj/time.h>

#include "common/wire/event-line.h"
#include "machined/logs/log-ring.h"
#include "machined/process1/process1.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

// IDs of machine events: 20 characters whose order as text is the order of the events.
//
// 96 bits, big-endian: seconds since 1970 (32), nanoseconds of the second (32), serial number in
// this boot (32); in base32 with the digits 0-9a-v, which sort as their values do. A maker's IDs
// never decrease, even if the clock is set back.

struct EventId {
  uint32_t seconds = 0, nanoseconds = 0, serial = 0;

  kj::String toString() const;
  // Returns nullptr if the text is not an ID.
  static kj::Maybe<EventId> parse(kj::StringPtr text);
  bool operator<(const EventId& other) const;
};

class EventIdMaker {
 public:
  // Returns the next ID. `now` is the clock's time; a time before the last ID's counts as the last
  // ID's.
  EventId next(kj::Date now);
  // Continues after the last ID of a predecessor.
  void resume(const EventId& id);

 private:
  uint64_t last = 0;  // ns since 1970
  uint32_t serial = 0;
};

constexpr size_t kEventRing = 1000;

class Events {
 public:
  Events(const kj::Clock& clock, Process1& process1);
  ~Events() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Events);

  // Publishes an event; fills in its ID and time.
  void publish(kj::Function<void(rpc::Event::Builder)> fill);
  void sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error = "",
                bool locked = false);
  void phase(kj::StringPtr name, rpc::Action action);
  void task(kj::StringPtr name, rpc::Action action);

  // Runs until dropped, or, with `once`, until the present events are sent; rejects if the sink
  // fails, and with InvalidArgument if `after` is not an event ID.
  kj::Promise<void> watch(rpc::Tail::Reader tail, rpc::EventSink::Client sink, bool once = false);

  // Returns the events as lines, for a part that keeps them longer (common/wire/event-line.h).
  const LogRing& lines() const;
  kj::Promise<void> changed();  // resolves at the next event

  // Calls the listener with the events in the ring, oldest first, and then with every event as it
  // is published. For parts of this process, for the ring's whole life.
  void onEvent(kj::Function<void(rpc::Event::Reader)> listener);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
