// Partitions without data. The size of a partition's head: a partition counts as empty if its head
// is all zeros, and zeroing the head empties the partition.
//
// The head covers the header of a LUKS2 volume with both of its copies and all of its key slots;
// without them the data after them is unreadable. So a damaged header, with any part left, is never
// taken for an empty partition. The head of an XFS is the start of the first allocation group; if
// it is lost, it can be repaired only by hand from the data after it, if at all: so many zeros are
// not an accident. The head of a small partition, such as STATE, is the whole partition, which
// costs no more time.
#pragma once

#include <kj/common.h>
#include <stdint.h>
#include <string.h>

namespace talos {

constexpr uint64_t kEmptyHead = 16u << 20, kSmallPartition = 128u << 20;

// Returns the size of the head of a partition of so many bytes.
constexpr uint64_t emptyHeadOf(uint64_t bytes) {
  return bytes <= kSmallPartition ? bytes : kEmptyHead;
}

// Zeros with which the content of a new encrypted volume starts.
constexpr uint64_t kFreshBytes = 1u << 20;

// Recognizes an XFS whose mkfs.xfs was interrupted by a power cut: mkfs.xfs sets a mark with the
// first bytes that it writes, and clears the mark with the last ones. Such a file system has no
// data yet.
inline bool isUnfinishedXfs(kj::ArrayPtr<const kj::byte> head) {
  constexpr size_t kInProgress = 126;  // sb_inprogress
  return head.size() > kInProgress && memcmp(head.begin(), "XFSB", 4) == 0 &&
         head[kInProgress] != 0;
}

}  // namespace talos
