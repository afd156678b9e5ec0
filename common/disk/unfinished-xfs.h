// Whether an XFS was being made here when the power went: mkfs.xfs sets the mark with the first
// bytes that it writes, and takes it back with the last ones. Nobody has had data on it.
#pragma once

#include <kj/common.h>
#include <string.h>

namespace talos {

inline bool isUnfinishedXfs(kj::ArrayPtr<const kj::byte> head) {
  constexpr size_t kInProgress = 126;  // sb_inprogress
  return head.size() > kInProgress && memcmp(head.begin(), "XFSB", 4) == 0 &&
         head[kInProgress] != 0;
}

}  // namespace talos
