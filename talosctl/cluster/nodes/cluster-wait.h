// Waits for the nodes of a new cluster and shows progress.
#pragma once

#include <kj/vector.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/cli/command.h"

namespace talos::cluster {

// All functions throw DeadlineExceeded naming the node and its last observed state, with the end of
// its console, or FailedPrecondition if a node can no longer come up.

// Waits until each of these nodes answers and all its services are up. Reads
// <stateFolder>/talosconfig. A worker gets its certificate at the cluster's endpoint: if the
// endpoint is a shared address, the worker is up only after the bootstrap of etcd.
enum class Among { kAllNodes, kControlPlane };
kj::Promise<void> waitUntilUp(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                              kj::StringPtr stateFolder, kj::Duration deadline,
                              Among among = Among::kAllNodes);

// Waits until every node waits for its config with the fingerprint on its console. Returns the
// fingerprints, in the order of the nodes.
kj::Promise<kj::Array<kj::String>> waitForMaintenance(talosctl::Invocation& call,
                                                      rpc::LocalCluster::Reader cluster,
                                                      kj::StringPtr stateFolder,
                                                      kj::Duration deadline);

// Sends every node, verified by these fingerprints, its <stateFolder>/<node>.yaml.
kj::Promise<void> applyConfigs(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                               kj::StringPtr stateFolder,
                               kj::ArrayPtr<const kj::String> fingerprints);

// Returns the last fingerprint that a console shows. Pure.
kj::Maybe<kj::String> fingerprintOn(kj::StringPtr console);

}  // namespace talos::cluster
