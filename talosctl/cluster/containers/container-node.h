// A node as a container: one run of the image's process 1 in namespaces of its own
// (talosctl/cluster/containers), with a new veth and new cgroups. STATE and EPHEMERAL are folders
// of the cluster's state folder, so they survive the run, the supervisor and the host.
//
// Process 1 ends by reboot(2), of which its parent sees a signal: SIGHUP for a reboot, SIGINT for a
// power off. SIGTERM is its power button. A killed container loses no byte that it has written: the
// page cache is the host's. A power cut would be harder.
#pragma once

#include <kj/async-unix.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/containers/node-cgroups.h"
#include "talosctl/cluster/network/cluster-network.h"
#include "talosctl/cluster/processes/node-instance.h"

namespace talos::cluster {

struct ContainerLaunch {
  rpc::LocalNode::Reader node;
  kj::StringPtr stateFolder;  // of the cluster
  kj::StringPtr image;        // where the image is mounted
  kj::StringPtr link;         // name of the veth's end on the bridge
  bool withoutConfig;
};

// Creates its folders STATE and EPHEMERAL, empty.
void makeContainerFolders(rpc::LocalNode::Reader node, kj::StringPtr stateFolder);

// Everything that is passed in outlives the instance.
kj::Own<Instance> launchContainer(kj::UnixEventPort& port, Network& network,
                                  container::ClusterCgroups& cgroups,
                                  const ContainerLaunch& launch);

}  // namespace talos::cluster
