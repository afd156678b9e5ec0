// Unmounts a volume after the mounts on top of it, and finds the processes that keep it busy.
//
// Data that is not on the disk yet is written by it, so it can take long and is done in the thread
// pool. A mount that cannot be unmounted is reported, with the processes that use it, and left to
// process 1, which ends all processes and tries again: nothing keeps a machine from shutting down.
#pragma once

#include <kj/string.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "machined/process1/uv-loop.h"

namespace talos::machined {

// The mounts that have to go before `path` can: mount points, in the order in which they can be
// unmounted. `mountinfo` is the text of /proc/self/mountinfo.
enum class MountsOn {
  kBelow,       // anything mounted somewhere below it
  kServers,     // the same, but only what is on a server (common/kernel/network-file-systems.h)
  kOverlays,    // elsewhere, with an upper layer in it
  kOtherPlaces  // its own files and folders, shown elsewhere
};
kj::Vector<kj::String> mountsOn(kj::StringPtr mountinfo, kj::StringPtr path, MountsOn which);

// A process that has something open in the file system that `path` is in: "containerd (PID 12) has
// /var/lib/x open". None when nobody is found. Blocking.
kj::Maybe<kj::String> userOf(kj::StringPtr path, kj::StringPtr proc = "/proc");

// Takes mounts of servers out of the tree, all side by side. Each gets 5 s to write what is in
// memory. If its server does not answer, it has a message in the result, and another 5 s in which
// calls that wait for the server fail, so that stuck processes end. Threads of their own wait for
// servers, none of the pool. What is below the mounts can be unmounted in any case.
kj::Promise<kj::Vector<kj::String>> detachServers(kj::Timer& timer, kj::Vector<kj::String> targets);

// None when nothing is mounted there any more; otherwise why it still is. Tries for 5 s. As there,
// a disk that hangs keeps a thread of its own, and no other disk from being written.
kj::Promise<kj::Maybe<kj::String>> unmountWithin(UvLoop& uv, kj::Timer& timer, kj::String target);

}  // namespace talos::machined
