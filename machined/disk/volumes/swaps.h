// The kernel's table of swap, /proc/swaps. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

struct Swap {
  kj::String device, type;  // /dev/vdb1, partition
  uint64_t bytes = 0, used = 0;
  int priority = 0;
};
kj::Vector<Swap> swapsIn(kj::StringPtr table);

// Returns why the use of the device as swap cannot be stopped: what is on it does not fit into
// memory, and the kernel would end the caller, or another process, to make room; nullptr if it
// fits. `meminfo` is the text of /proc/meminfo.
kj::Maybe<kj::String> whySwapStays(kj::StringPtr table, kj::StringPtr meminfo,
                                   kj::StringPtr device);

}  // namespace talos::machined
