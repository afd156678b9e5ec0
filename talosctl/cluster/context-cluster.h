// The local clusters of the state folder, and the cluster to which a context of the talosconfig
// leads.
#pragma once

#include "common/config/talosconfig.h"
#include "rpc/cluster.capnp.h"
#include "talosctl/cli/command.h"
#include "talosctl/cluster/nodes/cluster-state.h"

namespace talos::talosctl {

struct FoundCluster {
  kj::String name;
  cluster::StateDirectory state;
  kj::Own<capnp::MallocMessageBuilder> message;
  rpc::LocalCluster::Reader get() { return message->getRoot<rpc::LocalCluster>().asReader(); }
};

// Returns the names of the clusters of --state, sorted; their files may be unreadable.
kj::Array<kj::String> clusterNames(Invocation& call);

// Returns the local cluster with the CA of a context. nullptr if there is no such cluster, or if
// its files cannot be read.
kj::Maybe<FoundCluster> clusterOf(Invocation& call, const Context& context);
// Returns the cluster of the call's context. nullptr also without a talosconfig or a current
// context; throws if --context names an unknown context.
kj::Maybe<FoundCluster> clusterOfContext(Invocation& call);

}  // namespace talos::talosctl
