// How processors, memory and devices are connected, from sysfs: NUMA nodes
// (Documentation/ABI/stable/sysfs-devices-node) and groups of the IOMMU
// (Documentation/ABI/testing/sysfs-kernel-iommu_groups). Does not change while the machine runs.
// Blocking; the root of sysfs is a parameter.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

struct NumaNode {
  kj::String id;    // node0
  kj::String cpus;  // 0-7,16-23; empty: only memory
  uint64_t mebibytes = 0;
  kj::Vector<uint32_t> distances;  // to each node, in the order of nodes
};
// Returns the nodes in order; empty if the kernel has no NUMA.
kj::Vector<NumaNode> readNumaNodes(kj::StringPtr sys);

struct IommuGroup {
  kj::String id;    // its number
  kj::String type;  // of its address space; empty if the kernel does not report it
  kj::Vector<kj::String> devices;
};
// Returns the groups in order; empty without an IOMMU, or while it is off.
kj::Vector<IommuGroup> readIommuGroups(kj::StringPtr sys);

}  // namespace talos::machined
