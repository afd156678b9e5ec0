// The size of a partition's head: a partition counts as empty if its head is all zeros, and is
// emptied by zeroing the head.
//
// The head covers the header of a LUKS2 volume with both of its copies and all of its key slots:
// the data after them is unreadable without them. So a damaged header, with anything of it left, is
// never taken for an empty partition. Of an XFS it is the start of the first allocation group,
// whose loss is repaired by hand from the data after it, if at all: zeros of that length are no
// accident. The head of a small partition, such as STATE, is the whole partition: that costs no
// more time.
#pragma once

#include <stdint.h>

namespace talos {

constexpr uint64_t kEmptyHead = 16u << 20, kSmallPartition = 128u << 20;

// Of a partition of so many bytes.
constexpr uint64_t emptyHeadOf(uint64_t bytes) {
  return bytes <= kSmallPartition ? bytes : kEmptyHead;
}

// A new encrypted volume starts with so many zeros inside.
constexpr uint64_t kFreshBytes = 1u << 20;

}  // namespace talos
