// Errors of memory with ECC, as drivers of the kernel count them since they were loaded
// (Documentation/ABI/testing/sysfs-devices-edac). A machine whose memory has no ECC, or whose
// controller has no driver, has none. Blocking; the root of sysfs is passed in.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

struct MemoryErrors {
  kj::String id;          // mc0 of a controller, mc0-dimm3 of one of its modules
  kj::String controller;  // as its driver calls it
  kj::String module;      // the label of its socket; empty: of the whole controller
  uint64_t mebibytes = 0;
  uint64_t corrected = 0, uncorrected = 0;
};

// A controller, then its modules. What has no counters is left out.
kj::Vector<MemoryErrors> readMemoryErrors(kj::StringPtr sys);

}  // namespace talos::machined
