// Starts the supervisor of a cluster as a separate process that outlives this one.
#pragma once

#include <kj/async-io.h>
#include <kj/string.h>

namespace talos::cluster {

// Runs this program again as `cluster-run <state folder>`, detached from the terminal, its output
// going to supervisor.log; resolves when it is ready. Rejects with its error, or when it is not
// ready in time: the kernel creates links under one lock for all network namespaces, which others
// may hold for long.
kj::Promise<void> launchSupervisor(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                   kj::StringPtr stateDirectory,
                                   kj::Duration deadline = 60 * kj::SECONDS);

}  // namespace talos::cluster
