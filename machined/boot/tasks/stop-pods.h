// Stops the pods of a node that shuts down. First the node gives up its shared addresses, so that
// no client waits for its API server. Then the holders of inhibitor locks get their time
// (machined/confined/login1): the kubelet, which stops its pods. Then the kubelet itself stops,
// which would start pods again; then the remaining pods stop, all together within 90 s. Failures
// are warnings. It keeps nothing.
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
