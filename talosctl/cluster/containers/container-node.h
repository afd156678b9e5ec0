// A node as a container: one run of the image's process 1 in namespaces of its own
// (talosctl/cluster/containers), with a new veth and new cgroups. STATE, EPHEMERAL and the slots
// are folders of the cluster's state folder, so they survive the run, the supervisor and the host.
//
// Process 1 ends by reboot(2), of which its parent sees a signal: SIGHUP for a reboot, SIGINT for a
// power off. SIGTERM is its power button. A killed container loses no byte that it has written: the
// page cache is the host's. A power cut would be harder.
//
// The image is that of a slot, which node-slots.h chooses. A system that was started on trial is
// treated as panic=… treats it on a machine: a process 1 that fails makes the node reboot. Beyond
// that, one whose process 1 hangs before it has started anything is killed when the trial is over;
// so is nothing else, as the system may go on with its trial for the sake of others.
#pragma once

#include <kj/async-unix.h>
#include <kj/timer.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/containers/node-cgroups.h"
#include "talosctl/cluster/network/cluster-network.h"
#include "talosctl/cluster/processes/node-instance.h"

namespace talos::cluster {

struct ContainerLaunch {
  rpc::LocalNode::Reader node;
  kj::StringPtr stateFolder;  // of the cluster
  kj::StringPtr link;         // name of the veth's end on the bridge
  bool withoutConfig;
  capnp::List<capnp::Text>::Reader extraArguments = {};  // of the kernel, as the node sees it
};

// Creates its folders STATE and EPHEMERAL, empty.
void makeContainerFolders(rpc::LocalNode::Reader node, kj::StringPtr stateFolder);
kj::String slotsFolderOf(rpc::LocalNode::Reader node, kj::StringPtr stateFolder);

// Everything that is passed in outlives the instance.
kj::Own<Instance> launchContainer(kj::UnixEventPort& port, kj::Timer& timer, Network& network,
                                  container::ClusterCgroups& cgroups,
                                  const ContainerLaunch& launch);

}  // namespace talos::cluster
