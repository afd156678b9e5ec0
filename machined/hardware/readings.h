// Readings of the machine from sysfs: sensors, errors of memory, and how its parts are connected.
// Blocking; the root of sysfs is a parameter.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

// Temperatures and fans, as drivers of the kernel show them in sysfs
// (Documentation/hwmon/sysfs-interface.rst).
//
// Blocking: a read may query the chip, over a slow bus. A sensor that cannot be read, because it is
// off or its device disappeared, is left out.
struct Sensor {
  enum class Kind { kTemperature, kFan };
  kj::String id;            // hwmon0-temp1
  kj::String chip, device;  // coretemp; nvme0
  kj::String label;         // empty if the driver has no label
  Kind kind = Kind::kTemperature;
  int32_t value = 0;  // degrees Celsius, or revolutions per minute
  // In the same unit; 0: the driver reports no limit. A fan has only `low`, a temperature the
  // others.
  int32_t low = 0, high = 0, critical = 0;
  kj::StringPtr state;  // ok, low, high, critical, alarm or fault
};

// Returns the sensors in the order of the chips, then of their sensors.
kj::Vector<Sensor> readSensors(kj::StringPtr sys);

// Errors of memory with ECC, as drivers of the kernel have counted them since they were loaded
// (Documentation/ABI/testing/sysfs-devices-edac). The list is empty if the memory has no ECC, or
// its controller has no driver.
struct MemoryErrors {
  kj::String id;          // mc0 for a controller, mc0-dimm3 for one of its modules
  kj::String controller;  // name that its driver gives it
  kj::String module;      // label of its socket; empty for the whole controller
  uint64_t mebibytes = 0;
  uint64_t corrected = 0, uncorrected = 0;
};

// Returns each controller, then its modules. Entries without counters are left out.
kj::Vector<MemoryErrors> readMemoryErrors(kj::StringPtr sys);

// How processors, memory and devices are connected, from sysfs: NUMA nodes
// (Documentation/ABI/stable/sysfs-devices-node) and groups of the IOMMU
// (Documentation/ABI/testing/sysfs-kernel-iommu_groups). Does not change while the machine runs.
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

// --- For the files of this folder: attributes of sysfs as numbers and printable text, and folders
// of numbered entries.

// Returns nullptr if the file does not exist, cannot be read now, or holds no integer.
kj::Maybe<int64_t> attributeNumber(kj::StringPtr device, kj::StringPtr name);
// Returns printable ASCII; empty in the same cases.
kj::String attributeText(kj::StringPtr device, kj::StringPtr name);
// Returns the last name of a link's target; empty if it is not a link.
kj::String linkName(kj::StringPtr link);
// Returns "mc0", "mc1" … "mc10" in a folder, in the order of their numbers.
kj::Vector<kj::String> numberedNames(kj::StringPtr folder, kj::StringPtr prefix, size_t most);

}  // namespace talos::machined
