// Delays a shutdown, before anything is stopped, for the holders of inhibitor locks: the node
// announces the shutdown (ShutdownRequests[node]), and login1 says when no lock is left
// (ShutdownDelays[node]). The request says how long that may take: what the kubelet asks for
// (KubeletSpecs[kubelet]) and kShutdownMargin.
//
// Bounded by login1, and once more here. A login1 that has exited is waited for as long as its
// restart may take, if somebody holds a lock; without one and without locks it resolves at once. It
// does not reject. The request stays: a brain that was restarted meanwhile finds it, and its
// answer.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

namespace talos::machined {

class Store;

kj::Promise<void> delayShutdown(Store& store, kj::Timer& timer,
                                kj::Function<void(kj::StringPtr line)> report);

}  // namespace talos::machined
