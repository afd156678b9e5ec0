// talosctl cluster create | show | destroy, the power commands (cluster-power-command.cc), and the
// hidden cluster-run (the supervisor's own process). Flags and output: spec talosctl.md §13.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cluster/cluster-state.h"

namespace talos::talosctl {

void addClusterCommands(Command& root);

// --- what those commands share
void addPowerCommands(Command& cluster);
void addStateFlags(Command& command);  // --name, --state
void addWaitFlags(Command& command);   // --wait, --wait-timeout
// The state folder of the cluster of --name, or of this name.
cluster::StateDirectory stateOf(Invocation& call);
cluster::StateDirectory stateOf(Invocation& call, kj::StringPtr name);

}  // namespace talos::talosctl
