// The pods of a node that goes down. First it gives up its shared addresses, so that nobody waits
// for its API server. Then who holds a lock on the shutdown is waited for
// (machined/confined/login1): the kubelet, which ends its pods. Then that ends, which would start
// pods again; then what is left of them gets its time to end, all together no more than 90 s. What
// went wrong is told; it keeps nothing.
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
