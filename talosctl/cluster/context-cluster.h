// The local clusters of the state folder, and the one that a context of the talosconfig leads to.
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

// Names of the clusters of --state, sorted; their files may be unreadable.
kj::Array<kj::String> clusterNames(Invocation& call);

// The local cluster of a context: the one with its CA. None when there is none, or when its files
// cannot be read.
kj::Maybe<FoundCluster> clusterOf(Invocation& call, const Context& context);
// That of the call's context. None also when there is no talosconfig, or no current context in it;
// throws when --context names an unknown one.
kj::Maybe<FoundCluster> clusterOfContext(Invocation& call);

}  // namespace talos::talosctl
