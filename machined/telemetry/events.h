// The ring of the newest 1000 machine events, and those who follow it.
//
// A follower has a cursor, not a queue: memory does not depend on how many follow or how slow they are.
// One that falls 1000 behind is told how many it missed and goes on with the oldest that is left.
#pragma once

#include <capnp/message.h>
#include <kj/async.h>

#include "rpc/machine.capnp.h"

namespace talos::machined {

class Events {
 public:
  explicit Events(const kj::Clock& clock);
  ~Events() noexcept(false);

  // Fills in id and time.
  void publish(kj::Function<void(rpc::Event::Builder)> fill);
  void sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error = "", bool locked = false);
  void phase(kj::StringPtr name, rpc::Action action);
  void task(kj::StringPtr name, rpc::Action action);

  // Runs until dropped. Also hears every event inside the process: see onEvent.
  kj::Promise<void> watch(rpc::Tail::Reader tail, rpc::EventSink::Client sink);
  void onEvent(kj::Function<void(rpc::Event::Reader)> listener);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
