// How processors, memory and devices belong together, from sysfs: NUMA nodes
// (Documentation/ABI/stable/sysfs-devices-node) and groups of the IOMMU
// (Documentation/ABI/testing/sysfs-kernel-iommu_groups). Fixed while the machine runs. Blocking;
// the root of sysfs is passed in.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

struct NumaNode {
  kj::String id;    // node0
  kj::String cpus;  // 0-7,16-23; empty: memory alone
  uint64_t mebibytes = 0;
  kj::Vector<uint32_t> distances;  // to each node, in their order
};
// In their order; a kernel without NUMA has none.
kj::Vector<NumaNode> readNumaNodes(kj::StringPtr sys);

struct IommuGroup {
  kj::String id;    // its number
  kj::String type;  // of its address space; empty: the kernel does not say
  kj::Vector<kj::String> devices;
};
// In their order; none without an IOMMU, or while it is off.
kj::Vector<IommuGroup> readIommuGroups(kj::StringPtr sys);

}  // namespace talos::machined
