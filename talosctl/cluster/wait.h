// Waits until every node of a new cluster answers and all its services are up, telling what it
// waits for.
#pragma once

#include "rpc/cluster.capnp.h"
#include "talosctl/command.h"

namespace talos::cluster {

// Reads <stateFolder>/talosconfig. DeadlineExceeded naming the node and what was last seen of it,
// with the end of its console.
kj::Promise<void> waitUntilUp(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                              kj::StringPtr stateFolder, kj::Duration deadline);

}  // namespace talos::cluster
