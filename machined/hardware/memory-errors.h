// Errors of memory with ECC, as drivers of the kernel have counted them since they were loaded
// (Documentation/ABI/testing/sysfs-devices-edac). The list is empty if the memory has no ECC, or
// its controller has no driver. Blocking; the root of sysfs is a parameter.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

struct MemoryErrors {
  kj::String id;          // mc0 for a controller, mc0-dimm3 for one of its modules
  kj::String controller;  // name that its driver gives it
  kj::String module;      // label of its socket; empty for the whole controller
  uint64_t mebibytes = 0;
  uint64_t corrected = 0, uncorrected = 0;
};

// Returns each controller, then its modules. Entries without counters are left out.
kj::Vector<MemoryErrors> readMemoryErrors(kj::StringPtr sys);

}  // namespace talos::machined
