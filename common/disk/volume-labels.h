// Labels of the partitions that documents of volumes make: u-data, r-data, s-data.
//
// Until its file system is complete, a partition has its label with kUnfinishedVolume at the end. A
// partition with such a label has never held data of a user, so it may be emptied; one with the
// final label is never emptied, whatever it holds.
#pragma once

#include <kj/string.h>

namespace talos {

constexpr kj::StringPtr kUnfinishedVolume = ".unfinished"_kj;

inline bool isVolumeLabel(kj::StringPtr label) {
  for (auto prefix : {"u-"_kj, "r-"_kj, "s-"_kj}) {
    if (label.startsWith(prefix) && label.size() > prefix.size()) return true;
  }
  return false;
}

inline kj::String unfinishedVolume(kj::StringPtr label) {
  return kj::str(label, kUnfinishedVolume);
}

}  // namespace talos
