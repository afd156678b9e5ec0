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

}  // namespace talos::machined
