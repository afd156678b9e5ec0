// Delays a shutdown, before anything is stopped, for the holders of inhibitor locks: the node
// announces the shutdown (ShutdownRequests[node]), and login1 reports when no lock is left
// (ShutdownDelays[node]). The announcement says how long this may take: the time that the kubelet
// requests (KubeletSpecs[kubelet]) plus kShutdownMargin.
//
// login1 limits the delay, and so does this function. If login1 has exited and a lock is held, the
// function waits as long as a restart of login1 may take; without login1 and without locks it
// resolves at once. It does not reject. The request stays: a restarted brain finds the request, and
// login1's answer.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

namespace talos::machined {

class Store;

kj::Promise<void> delayShutdown(Store& store, kj::Timer& timer,
                                kj::Function<void(kj::StringPtr line)> report);

}  // namespace talos::machined
