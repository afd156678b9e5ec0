// Recognizes an XFS whose mkfs.xfs was interrupted by a power cut: mkfs.xfs sets a mark with the
// first bytes that it writes, and clears the mark with the last ones. Such a file system has no
// data yet.
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
