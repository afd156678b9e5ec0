// Follows a node until the outcome is known: after a reboot until it answers with another boot id
// and its services are up, after a shutdown until it is off.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cli/node-outcome.h"
#include "talosctl/cli/progress-lines.h"

namespace talos::talosctl {

constexpr kj::Duration kOutcome = 10 * kj::MINUTES;

// Declares --wait.
void addWaitFlag(Command& command, bool fallback);

// Declares the flag in which the original has how a machine is started again. Here that is always
// through its firmware.
void addRebootMode(Command& command, kj::StringPtr name);

// Uses connections of its own. Shows each state in line `index` of `progress`. Rejects with the
// reason when the node failed, and with its last state when --timeout (kOutcome if it was not
// given) has passed.
// A node that is going to be off is so when it stays silent although an endpoint answers, or when
// it is an endpoint itself: by its name, or by `isEndpoint`.
kj::Promise<void> follow(Invocation& call, Outcome::Kind kind, kj::StringPtr node,
                         kj::String bootId, Progress& progress, size_t index,
                         bool isEndpoint = false);

}  // namespace talos::talosctl
