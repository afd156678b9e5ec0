// The ring of the newest 1000 machine events, and those who follow it.
//
// A follower has a cursor, not a queue: memory does not depend on how many follow or how slow they
// are. One that falls 1000 behind is told how many it missed and goes on with the oldest that is
// left. The ring is the brain's own: after a crash of the brain it starts empty, and a follower
// that asks for what came behind an id of the predecessor gets everything that the successor
// published.
#pragma once

#include <capnp/message.h>
#include <kj/async.h>
#include <kj/function.h>
#include <kj/time.h>

#include "rpc/machine.capnp.h"

namespace talos::machined {

constexpr size_t kEventRing = 1000;

class Events {
 public:
  explicit Events(const kj::Clock& clock);
  ~Events() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Events);

  // Fills in id and time.
  void publish(kj::Function<void(rpc::Event::Builder)> fill);
  void sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error = "",
                bool locked = false);
  void phase(kj::StringPtr name, rpc::Action action);
  void task(kj::StringPtr name, rpc::Action action);

  // Runs until dropped; rejects when the sink fails, and with InvalidArgument for an `after` that
  // is not an event id.
  kj::Promise<void> watch(rpc::Tail::Reader tail, rpc::EventSink::Client sink);

  // Calls the listener with what the ring holds, oldest first, and then with every event as it is
  // published. For parts of this process, for as long as it lives.
  void onEvent(kj::Function<void(rpc::Event::Reader)> listener);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
