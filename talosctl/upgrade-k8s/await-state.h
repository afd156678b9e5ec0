// Waits for a state of the cluster, and reports each other text once for why it waits.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "talosctl/upgrade-k8s/upgrade-lines.h"

namespace talos::talosctl {

struct AwaitTimes {
  kj::Duration limit, interval = 1 * kj::SECONDS;
};

// Until `attempt` gives an empty text; any other is what is still missing. A rejection with
// InvalidArgument, PermissionDenied, Unauthenticated, Unimplemented or FailedPrecondition is final,
// others are retried. DeadlineExceeded with what was missing last.
kj::Promise<void> awaitState(kj::Timer& timer, UpgradeLines& lines, kj::String what,
                             AwaitTimes times, kj::Function<kj::Promise<kj::String>()> attempt);

}  // namespace talos::talosctl
