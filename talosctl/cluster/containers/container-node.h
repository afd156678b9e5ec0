// A node as a container: one run of the image's process 1 in its own namespaces
// (talosctl/cluster/containers), with a new veth and new cgroups. STATE, EPHEMERAL and the slots
// are folders of the cluster's state folder, so they survive the run, the supervisor and the host.
//
// Process 1 ends by reboot(2), which its parent sees as a signal: SIGHUP for a reboot, SIGINT for a
// power off. SIGTERM acts as the power button. A killed container loses no byte that it has
// written, because the page cache belongs to the host. A power cut would lose more.
//
// node-slots.h chooses the slot with the image. A system on trial is treated as panic=… treats it
// on a machine: if process 1 fails, the node reboots. In addition, a process 1 that hangs before it
// has started anything is killed at the end of the trial. No other process is killed then, because
// the system may extend its trial on behalf of other nodes.
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
  kj::StringPtr stateFolder;  // state folder of the cluster
  kj::StringPtr link;         // name of the veth's end on the bridge
  bool withoutConfig;
  // Additional kernel arguments, as the node sees them.
  capnp::List<capnp::Text>::Reader extraArguments = {};
};

// Link in the state folder of the cluster to the folder with its cache of images, if it has one.
constexpr kj::StringPtr kImageCacheLink = "image-cache"_kj;

// Creates the node's folders STATE and EPHEMERAL, empty.
void makeContainerFolders(rpc::LocalNode::Reader node, kj::StringPtr stateFolder);
kj::String slotsFolderOf(rpc::LocalNode::Reader node, kj::StringPtr stateFolder);

// All arguments must outlive the instance.
kj::Own<Instance> launchContainer(kj::UnixEventPort& port, kj::Timer& timer, Network& network,
                                  container::ClusterCgroups& cgroups,
                                  const ContainerLaunch& launch);

}  // namespace talos::cluster
