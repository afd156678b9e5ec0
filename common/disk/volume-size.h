// The upper bound of a volume's size, as documents give it: bytes or a percentage of the free
// space, or what is to be left of it. Pure.
#pragma once

#include <kj/common.h>
#include <stdint.h>

namespace talos {

struct VolumeBound {
  uint64_t most = 0;         // bytes; 0 without a percentage: all of the free space
  unsigned mostPercent = 0;  // of the free space, in place of bytes
  bool leavesMost = false;   // the bound is what stays free
};

// Returns the bytes that a volume gets of free space; whole MiB.
constexpr uint64_t sizeWithin(const VolumeBound& bound, uint64_t free) {
  uint64_t most = bound.mostPercent > 0 ? free / 100 * bound.mostPercent : bound.most;
  uint64_t size = most == 0           ? free
                  : !bound.leavesMost ? kj::min(most, free)
                  : most >= free      ? 0
                                      : free - most;
  return size >> 20 << 20;
}

// The size of EPHEMERAL, which begins after STATE.
struct EphemeralSize {
  VolumeBound bound;
  uint64_t least = 0;  // bytes
  bool grows = true;
};

}  // namespace talos
