// Waits for a state of the cluster, and prints each reason for the wait once.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "talosctl/upgrade-k8s/upgrade-lines.h"

namespace talos::talosctl {

struct AwaitTimes {
  kj::Duration limit, interval = 1 * kj::SECONDS;
};

// Repeats `attempt` until it returns an empty text; any other text says what is still missing. A
// rejection with InvalidArgument, PermissionDenied, Unauthenticated, Unimplemented or
// FailedPrecondition is final; after any other the attempt is retried. DeadlineExceeded with the
// last missing item.
kj::Promise<void> awaitState(kj::Timer& timer, UpgradeLines& lines, kj::String what,
                             AwaitTimes times, kj::Function<kj::Promise<kj::String>()> attempt);

}  // namespace talos::talosctl
