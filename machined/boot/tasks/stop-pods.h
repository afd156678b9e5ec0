// Stops the pods of a node that shuts down. First the node gives up its shared addresses, so that
// no client waits for its API server. Then the holders of inhibitor locks get their time
// (machined/confined/login1): the kubelet uses it to stop its pods. Then the kubelet itself stops,
// because it would start pods again; then the remaining pods stop, within 90 s in total. Failures
// are warnings. Keeps no state.
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
