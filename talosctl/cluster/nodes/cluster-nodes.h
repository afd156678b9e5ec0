// Everything that the nodes of a local cluster run on, in the calling thread's network and mount
// namespaces: the bridge, the image's mount, the cgroups, and for each node its power switch.
#pragma once

#include <kj/async-io.h>
#include <kj/vector.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/containers/node-cgroups.h"
#include "talosctl/cluster/network/cluster-network.h"
#include "talosctl/cluster/nodes/node-power.h"

namespace talos::cluster {

// Makes what the nodes of a new cluster store their files on (node-disks.h); throws as makeDisks.
void makeStorage(rpc::LocalCluster::Reader cluster, kj::StringPtr stateFolder);

class ClusterNodes {
 public:
  // Leaves the network namespace of the host and makes the bridge; leaves its mount namespace if
  // there are containers. `cluster` and `stateFolder` outlive it.
  ClusterNodes(kj::AsyncIoContext& io, rpc::LocalCluster::Reader cluster,
               kj::StringPtr stateFolder);
  ~ClusterNodes() noexcept(false);

  // Switches on all of them; throws when one cannot be.
  void startAll();
  // Orderly; the power of those that are not off after a minute is cut. Never fails.
  kj::Promise<void> stopAll();
  // NotFound, naming those that there are.
  NodePower& find(kj::StringPtr name);
  kj::ArrayPtr<kj::Own<NodePower>> all() { return powers; }

 private:
  kj::AsyncIoContext& io;
  rpc::LocalCluster::Reader cluster;
  kj::StringPtr stateFolder;
  kj::Maybe<container::ClusterCgroups> cgroups;
  kj::Own<Network> network;
  kj::String imageFolder;
  kj::Vector<kj::Own<NodePower>> powers;

  void prepareContainers();
  kj::Function<kj::Own<Instance>()> makerOf(rpc::LocalNode::Reader node, unsigned index);
};

}  // namespace talos::cluster
