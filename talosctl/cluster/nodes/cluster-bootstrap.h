// Bootstraps etcd of a new local cluster, and shows progress.
#pragma once

#include "rpc/cluster.capnp.h"
#include "rpc/etcd.capnp.h"
#include "talosctl/cli/command.h"

namespace talos::cluster {

// Bootstraps etcd on the first node, unless this node is of type init and does so itself, and waits
// until every control-plane node is a voting member and answers. Reads <stateFolder>/talosconfig.
// Throws the node's error, or DeadlineExceeded with the last observed state.
kj::Promise<void> bootstrapEtcd(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                                kj::StringPtr stateFolder, kj::Duration deadline);

// Returns "2 of 3 control-plane nodes are voting members; master-3: connection refused". Pure.
kj::String votersText(capnp::List<rpc::Etcd::Member>::Reader members, size_t wanted, bool& all);

}  // namespace talos::cluster
