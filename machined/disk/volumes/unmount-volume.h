// Unmounts a volume after the mounts on top of it, and finds the processes that keep it busy.
//
// Unmounting first writes data that is not on the disk yet, so it can take long and runs in the
// thread pool. A mount that cannot be unmounted is reported, with the processes that use it, and
// left to process 1, which ends all processes and tries again: nothing keeps a machine from
// shutting down.
#pragma once

#include <kj/async.h>
#include <kj/string.h>
#include <kj/thread.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "machined/process1/uv-loop.h"

namespace talos::machined {

// Returns the mount points that must be unmounted before `path`, in the order in which they can be
// unmounted. `mountinfo` is the text of /proc/self/mountinfo.
enum class MountsOn {
  kBelow,       // anything mounted somewhere below it
  kServers,     // the same, but only mounts of a server (common/kernel/network-file-systems.h)
  kOverlays,    // elsewhere, with an upper layer in it
  kOtherPlaces  // its own files and folders, shown elsewhere
};
kj::Vector<kj::String> mountsOn(kj::StringPtr mountinfo, kj::StringPtr path, MountsOn which);

// Returns a process that has a file open in the file system of `path`: "containerd (PID 12) has
// /var/lib/x open"; nullptr if none is found. Blocking.
kj::Maybe<kj::String> userOf(kj::StringPtr path, kj::StringPtr proc = "/proc");

// Detaches mounts of servers from the tree, all in parallel. Each gets 5 s to write the data in
// memory. If its server does not answer, the result has a message, and calls that wait for the
// server fail during another 5 s, so that stuck processes end. Separate threads wait for servers,
// not those of the pool. The file systems below the mounts can be unmounted in any case.
kj::Promise<kj::Vector<kj::String>> detachServers(kj::Timer& timer, kj::Vector<kj::String> targets);

// Resolves with the result of the function, which runs in a separate thread; nullptr if it does not
// end in time: the thread is abandoned then.
template <typename F>
kj::Promise<kj::Maybe<int>> apart(kj::Timer& timer, kj::Duration limit, F&& f) {
  auto paf = kj::newPromiseAndCrossThreadFulfiller<kj::Maybe<int>>();
  kj::Thread([f = kj::fwd<F>(f), done = kj::mv(paf.fulfiller)]() mutable {
    done->fulfill(f());
  }).detach();
  auto late = timer.afterDelay(limit).then([]() -> kj::Maybe<int> { return nullptr; });
  return paf.promise.exclusiveJoin(kj::mv(late));
}

// Resolves with nullptr when nothing is mounted at `target` any more; otherwise with the reason.
// Tries for 5 s. Like a server, a disk that hangs blocks a separate thread, and does not keep other
// disks from being written.
kj::Promise<kj::Maybe<kj::String>> unmountWithin(UvLoop& uv, kj::Timer& timer, kj::String target);

}  // namespace talos::machined
