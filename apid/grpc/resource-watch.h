// Turns a watch of our API into single changes: if the watcher was too slow, the node sends a new
// snapshot, of which the client gets the differences to the known state.
#pragma once

#include <kj/map.h>

#include "apid/grpc/answer-output.h"
#include "rpc/resources.capnp.h"

namespace talos::grpcapi {

class WatchListener {
 public:
  enum class Event { kCreated = 0, kUpdated = 1, kDestroyed = 2 };
  // Called before the first snapshot, whose resources are passed to changed() as kCreated;
  // bootstrapped() is called after it.
  virtual kj::Promise<void> begin() = 0;
  virtual kj::Promise<void> bootstrapped() = 0;
  virtual kj::Promise<void> changed(Event event, rpc::Resource::Reader resource) = 0;
  // The resource was destroyed while the watcher was too slow, so that only its id is known.
  virtual kj::Promise<void> gone(kj::StringPtr id) = 0;
  // Calls Output::charge() for resources that wait for the client, and for the state that the
  // client knows.
  virtual AnswerCharge charge(capnp::MessageSize kept) = 0;

 protected:
  ~WatchListener() noexcept(false) = default;
};

// Watches until the promise is dropped. An empty id: all resources of the kind. `listener` outlives
// the promise.
kj::Promise<void> watch(rpc::Resources::Client resources, kj::StringPtr space, kj::StringPtr type,
                        kj::StringPtr id, WatchListener& listener);

}  // namespace talos::grpcapi
