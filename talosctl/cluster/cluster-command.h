// The commands talosctl cluster show | list | destroy, create (cluster-create-command.cc), the
// power commands (cluster-power-command.cc), and the hidden cluster-run (the supervisor's own
// process).
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cluster/nodes/cluster-state.h"

namespace talos::talosctl {

void addClusterCommands(Command& root);
// Adds `debug replace` and `debug call` to the existing group debug.
void addLocalDebugCommands(Command& root);

// Lets the existing commands kubeconfig, reset and rotate-ca keep the files of the local cluster of
// the context up to date (local-files.cc).
void adaptToLocalClusters(Command& root);

// --- shared by those commands
void addReplaceCommand(Command& debug);
void addCallCommand(Command& debug);
void addCreateCommand(Command& cluster);
void addPowerCommands(Command& cluster);
void addCommonFlags(Command& command);        // addStateFlags(), --provisioner
void addStateFlags(Command& command);         // --name, --state
void addWaitFlags(Command& command);          // --wait, --wait-timeout
kj::String clustersFolder(Invocation& call);  // --state, absolute, or the default
bool namesFolder(Invocation& call);           // the command has --state, and it is given
// Returns HOME. InvalidArgument if it is not set.
kj::String homeOf(Invocation& call);
kj::String usualFolder(kj::StringPtr home);               // without --state
constexpr kj::StringPtr kUsualName = "talos-default"_kj;  // of `cluster create` without --name
// Returns the state folder of the cluster named by --name, or of this name.
cluster::StateDirectory stateOf(Invocation& call);
cluster::StateDirectory stateOf(Invocation& call, kj::StringPtr name);
// Makes a path of a cluster's state absolute: the next command may run in another folder.
kj::String absolute(kj::StringPtr path);
// Fills in the state of each node for `show`: "off" if the cluster does not run, "unknown" if its
// supervisor does not answer.
kj::Promise<void> readStates(Invocation& call, const cluster::StateDirectory& state,
                             rpc::LocalCluster::Builder cluster);
// Stops a cluster, if it runs, and removes everything that belongs to it. FailedPrecondition with
// the pids if some of its processes still run: then all its files are kept.
kj::Promise<void> discard(Invocation& call, const cluster::StateDirectory& state);

}  // namespace talos::talosctl
