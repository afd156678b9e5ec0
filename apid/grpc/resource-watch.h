// What a watch of ours tells, as single changes: a snapshot that comes again, because the watcher
// fell behind, is told as what is different in it.
#pragma once

#include <kj/map.h>

#include "rpc/resources.capnp.h"

namespace talos::edge {

class WatchListener {
 public:
  enum class Event { kCreated = 0, kUpdated = 1, kDestroyed = 2 };
  // The first snapshot is about to be told, by `created` for each resource; then it was.
  virtual kj::Promise<void> begin() = 0;
  virtual kj::Promise<void> bootstrapped() = 0;
  virtual kj::Promise<void> changed(Event event, rpc::Resource::Reader resource) = 0;
  // It has gone while nobody looked.
  virtual kj::Promise<void> gone(kj::StringPtr id) = 0;

 protected:
  ~WatchListener() noexcept(false) = default;
};

// Until it is dropped. An empty id: all of the kind. `listener` outlives the promise.
kj::Promise<void> watch(rpc::Resources::Client resources, kj::StringPtr space, kj::StringPtr type,
                        kj::StringPtr id, WatchListener& listener);

}  // namespace talos::edge
