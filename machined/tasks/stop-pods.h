// The pods of a node that goes down. First who holds a lock on the shutdown is waited for
// (machined/login1). Then it gives up its shared addresses, so that nobody waits for its API
// server; then the kubelet ends, which would start the pods again; then each gets its time to end,
// all together no more than 90 s. What went wrong is told; it keeps nothing.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

namespace talos::machined {

class Console;
class Containerd;
class Store;
class Supervisor;

kj::Promise<void> stopPodsGently(Supervisor& supervisor, Containerd& containerd, Console& console,
                                 kj::Timer& timer, Store& store);

}  // namespace talos::machined
