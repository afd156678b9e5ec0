// talosctl cluster show | list | destroy, create (cluster-create-command.cc), the power commands
// (cluster-power-command.cc), and the hidden cluster-run (the supervisor's own process).
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cluster/nodes/cluster-state.h"

namespace talos::talosctl {

void addClusterCommands(Command& root);
// `debug replace`, `debug call`: the group debug is there.
void addLocalDebugCommands(Command& root);

// --- shared by those commands
void addReplaceCommand(Command& debug);
void addCallCommand(Command& debug);
void addCreateCommand(Command& cluster);
void addPowerCommands(Command& cluster);
void addCommonFlags(Command& command);        // addStateFlags(), --provisioner
void addStateFlags(Command& command);         // --name, --state
void addWaitFlags(Command& command);          // --wait, --wait-timeout
kj::String clustersFolder(Invocation& call);  // --state, absolute
// The state folder of the cluster of --name, or of this name.
cluster::StateDirectory stateOf(Invocation& call);
cluster::StateDirectory stateOf(Invocation& call, kj::StringPtr name);
// Paths in a cluster's state are absolute: the next command may run in another folder.
kj::String absolute(kj::StringPtr path);
// Fills in the state of each node, for `show`: "off" when the cluster does not run, "unknown" when
// its supervisor does not answer.
kj::Promise<void> readStates(Invocation& call, const cluster::StateDirectory& state,
                             rpc::LocalCluster::Builder cluster);
// Stops a cluster, if it runs, and removes everything that belongs to it. FailedPrecondition with
// the pids while processes of it run: then its files are there as before.
kj::Promise<void> discard(Invocation& call, const cluster::StateDirectory& state);

}  // namespace talos::talosctl
