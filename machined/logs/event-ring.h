// The ring of the newest 1000 machine events, and the clients that follow it.
//
// A follower has a cursor, not a queue: memory does not depend on how many follow or how slow they
// are. One that falls 1000 behind learns how many it missed and goes on with the oldest that is
// left.
//
// Process 1 holds every event too, as a line of a log ring ("ring/events": base64 of the message):
// a new brain has those of its predecessor, and a follower goes on where it was. A crash before
// process 1 holds the ring (the first moment of the first brain) loses it.
#pragma once

#include <capnp/message.h>
#include <kj/async.h>
#include <kj/function.h>
#include <kj/time.h>

#include "common/wire/event-line.h"
#include "machined/logs/log-ring.h"
#include "machined/process1/process1.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

constexpr size_t kEventRing = 1000;

class Events {
 public:
  Events(const kj::Clock& clock, Process1& process1);
  ~Events() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Events);

  // Fills in id and time.
  void publish(kj::Function<void(rpc::Event::Builder)> fill);
  void sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error = "",
                bool locked = false);
  void phase(kj::StringPtr name, rpc::Action action);
  void task(kj::StringPtr name, rpc::Action action);

  // Runs until dropped, or `once`: until the events of now are sent; rejects when the sink fails,
  // and with InvalidArgument for an `after` that is not an event id.
  kj::Promise<void> watch(rpc::Tail::Reader tail, rpc::EventSink::Client sink, bool once = false);

  // Its lines, for whoever keeps them longer (common/wire/event-line.h).
  const LogRing& lines() const;
  kj::Promise<void> changed();  // at the next event

  // Calls the listener with what the ring holds, oldest first, and then with every event as it is
  // published. For parts of this process, for as long as it lives.
  void onEvent(kj::Function<void(rpc::Event::Reader)> listener);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
