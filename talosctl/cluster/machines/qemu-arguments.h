// Builds the command line of QEMU for a node that is a virtual machine, and of the kernel in it.
// Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

// A virtual machine is started from kernel and initramfs of the host, or from its disk with an
// installed system.
enum class StartFrom { kHost, kDisk };

// Returns the kernel command line of a node that is started from the host: the default arguments,
// except those whose key an extra argument has, then the extra arguments.
kj::String kernelArguments(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node);

// A disk of a virtual machine.
struct MachineDisk {
  kj::StringPtr file;
  bool readOnly = false;
};

// Returns the arguments of QEMU, without the program. QEMU inherits the descriptors.
kj::Vector<kj::String> qemuArguments(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node,
                                     kj::StringPtr stateFolder, int tapFd, int monitorFd,
                                     kj::ArrayPtr<const MachineDisk> disks,
                                     StartFrom from = StartFrom::kHost);

// Returns additional kernel arguments for an installed system, with which it starts in a local
// cluster as quickly as a system started from the host.
kj::ArrayPtr<const kj::StringPtr> installedKernelArguments();

// Returns the kernel argument ip=, the node's network before it has a config; address and default
// route are the same as in the config.
kj::String addressArgument(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node);

}  // namespace talos::cluster
