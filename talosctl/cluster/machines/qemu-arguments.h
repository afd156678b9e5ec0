// The command line of QEMU for a node that is a virtual machine, and of the kernel in it. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/cluster.capnp.h"

namespace talos::cluster {

// A virtual machine is started from kernel and initramfs of the host, or from its disk, where a
// system is installed.
enum class StartFrom { kHost, kDisk };

// The kernel command line of a node that is started from the host: the usual arguments, without
// those whose key one of the extra ones has, then the extra ones.
kj::String kernelArguments(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node);

// A disk of a virtual machine.
struct MachineDisk {
  kj::StringPtr file;
  bool readOnly = false;
};

// The arguments of QEMU, without the program. The descriptors are inherited by it.
kj::Vector<kj::String> qemuArguments(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node,
                                     kj::StringPtr stateFolder, int tapFd, int monitorFd,
                                     kj::ArrayPtr<const MachineDisk> disks,
                                     StartFrom from = StartFrom::kHost);

// Additional kernel arguments of an installed system, which make it as quick in a local cluster as
// one that is started from the host.
kj::ArrayPtr<const kj::StringPtr> installedKernelArguments();

// The kernel argument ip=: the node's network before it has a config, which has the same address
// and default route.
kj::String addressArgument(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node);

}  // namespace talos::cluster
