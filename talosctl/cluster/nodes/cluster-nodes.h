// Owns what the nodes of a local cluster run on, in the calling thread's network and mount
// namespaces: the bridge, the cgroups, and the power switch of each node. A container whose node
// has no slots yet gets them from the cluster's image.
#pragma once

#include <kj/async-io.h>
#include <kj/vector.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/containers/node-cgroups.h"
#include "talosctl/cluster/network/cluster-network.h"
#include "talosctl/cluster/nodes/node-power.h"

namespace talos::cluster {

// Creates the disks and folders of the nodes of a new cluster (node-disks.h); throws as makeDisks.
void makeStorage(rpc::LocalCluster::Reader cluster, kj::StringPtr stateFolder);

class ClusterNodes {
 public:
  // Leaves the network namespace of the host and makes the bridge; leaves its mount namespace if
  // there are containers. `cluster` and `stateFolder` outlive it.
  ClusterNodes(kj::AsyncIoContext& io, rpc::LocalCluster::Reader cluster,
               kj::StringPtr stateFolder);
  ~ClusterNodes() noexcept(false);

  // Each starts those nodes; throws when one cannot be started.
  void startControlPlane() { start(false); }
  void startWorkers() { start(true); }
  // Shuts them down; cuts the power of those that are not off after a minute. Never fails.
  kj::Promise<void> stopAll();
  // Throws NotFound with the known names.
  NodePower& find(kj::StringPtr name);
  kj::ArrayPtr<kj::Own<NodePower>> all() { return powers; }

 private:
  kj::AsyncIoContext& io;
  rpc::LocalCluster::Reader cluster;
  kj::StringPtr stateFolder;
  kj::Maybe<container::ClusterCgroups> cgroups;
  kj::Own<Network> network;
  kj::Vector<kj::Own<NodePower>> powers;

  void start(bool workers);
  void prepareContainers();
  void makeSlotsFromImage();
  kj::Function<kj::Own<Instance>()> makerOf(rpc::LocalNode::Reader node, unsigned index);
};

}  // namespace talos::cluster
