// Owns the host resources of a local cluster's nodes, in the calling thread's network and mount
// namespaces: the bridge, the cgroups, and the power switch of each node. A container without slots
// gets them from the cluster's image.
#pragma once

#include <kj/array.h>
#include <kj/async-io.h>
#include <kj/vector.h>
#include <sys/types.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/containers/node-cgroups.h"
#include "talosctl/cluster/network/cluster-network.h"
#include "talosctl/cluster/nodes/node-power.h"

namespace talos::cluster {

// Creates the disks and folders of the nodes of a new cluster (node-disks.h); throws as makeDisks()
// does.
void makeStorage(rpc::LocalCluster::Reader cluster, kj::StringPtr stateFolder);

class ClusterNodes {
 public:
  // Leaves the network namespace of the host and creates the bridge; with containers, also leaves
  // the host's mount namespace. `cluster` and `stateFolder` must outlive this object.
  ClusterNodes(kj::AsyncIoContext& io, rpc::LocalCluster::Reader cluster,
               kj::StringPtr stateFolder);
  ~ClusterNodes() noexcept(false);

  // Each function starts its nodes and throws if a node cannot be started.
  void startControlPlane() { start(false); }
  void startWorkers() { start(true); }
  // Shuts the nodes down; after a minute, cuts the power of the nodes that still run. Never fails.
  kj::Promise<void> stopAll();
  // Finds a node. Throws NotFound with the known names.
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

// The files that a local cluster runs as root: QEMU's tree, and the image, kernel and initramfs.
//
// A file or tree that the user named is used unchecked. All other files belong to this build and
// are checked at each start of the cluster, because the owner of the build's folder may have
// changed since.

// Sets the tree of QEMU for one run of this cluster; the result must not be saved. `build`: the
// folder that holds image/ (program-tree.h). Throws PermissionDenied if a file that the user did
// not name can be changed by others than the owners, and NotFound if there is no QEMU for a virtual
// machine.
void prepareRun(rpc::LocalCluster::Builder cluster, kj::StringPtr build,
                kj::ArrayPtr<const uid_t> owners);

}  // namespace talos::cluster
