// Labels of the partitions that documents of volumes make: u-data, r-data, s-data.
//
// Until its file system is complete, the entry of such a partition in the GPT has the attribute
// kUnfinishedVolume. A partition with it has never held data of a user, so it may be emptied; one
// without it is never emptied and never formatted, whatever it holds, and also if it holds nothing.
// The name is the final one from the start: the kernel learns no other until a boot, and all of the
// 36 characters of a name can be used.
#pragma once

#include <kj/string.h>
#include <stdint.h>

namespace talos {

// One of the bits 48 to 63, which are the owner's of the partition's type. Those of Linux data that
// systemd defines are 59, 60 and 63.
constexpr uint64_t kUnfinishedVolume = uint64_t{1} << 55;

inline bool isVolumeLabel(kj::StringPtr label) {
  for (auto prefix : {"u-"_kj, "r-"_kj, "s-"_kj}) {
    if (label.startsWith(prefix) && label.size() > prefix.size()) return true;
  }
  return false;
}

}  // namespace talos
