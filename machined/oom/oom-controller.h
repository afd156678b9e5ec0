// runtime.OOMController: kills a cgroup before the node is out of memory, as the document OOMConfig
// or its defaults say, and publishes runtime/OOMActions.
//
// It runs in the brain, which reads files of the kernel alone for it: no other process has to
// answer, and nothing is read from a disk. The last kKeptActions kills stay over a crash of the
// brain, by the journal of the store; their numbers go up. Not for a container, whose memory is its
// host's.
#pragma once

#include <kj/time.h>
#include <kj/timer.h>

#include "machined/config/controllers/machine-config-reader.h"
#include "machined/oom/oom-handler.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

constexpr unsigned kKeptActions = 50;

struct OomDependencies {
  kj::Timer& timer;
  const kj::Clock& clock;
  CgroupMemory memory;
  ReadConfig readConfig;
  kj::Function<void(kj::StringPtr)> alarm;  // prints for the operator, on the console
  // Runs work on a thread, because freeing the memory of a large process takes time.
  kj::Function<kj::Promise<void>(kj::Function<void()> work)> blocking;
};
kj::Own<Controller> oomController(OomDependencies deps);

}  // namespace talos::machined
