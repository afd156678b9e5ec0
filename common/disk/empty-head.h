// How much of a partition's begin must be zeros for the partition to count as empty, and is zeroed
// to make it so.
//
// It is the header of a LUKS2 volume with both of its copies and all of its key slots: what is
// behind them nobody can read without them. So a header that was damaged, with anything of it left,
// is never taken for an empty partition. Of an XFS it is the begin of the first allocation group,
// whose loss is repaired by hand from what is behind it, if at all: zeros of that length are no
// accident. A small partition, as STATE is one, is empty when all of it is zeros: there the whole
// costs no more than the beginning.
#pragma once

#include <stdint.h>

namespace talos {

constexpr uint64_t kEmptyHead = 16u << 20, kSmallPartition = 128u << 20;

// Of a partition of so many bytes.
constexpr uint64_t emptyHeadOf(uint64_t bytes) {
  return bytes <= kSmallPartition ? bytes : kEmptyHead;
}

// Zeros that a new encrypted volume begins with, inside.
constexpr uint64_t kFreshBytes = 1u << 20;

}  // namespace talos
