// Waits, before anything is stopped, for those who hold a lock on the shutdown: the node says that
// it goes down (ShutdownRequests[node]), and login1 tells when nobody is waited for any more
// (ShutdownDelays[node]).
//
// Bounded by login1, and once more here; without a login1 that runs it is over at once. It does not
// reject. The request stays: a brain that was restarted meanwhile finds it, and its answer.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

namespace talos::machined {

class Store;

kj::Promise<void> delayShutdown(Store& store, kj::Timer& timer,
                                kj::Function<void(kj::StringPtr line)> tell);

}  // namespace talos::machined
