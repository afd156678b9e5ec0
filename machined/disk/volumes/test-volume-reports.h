// For tests: reports of volumes that nobody reads. A fixture overrides those that it looks at.
#pragma once

#include "machined/disk/volumes/system-partitions.h"

namespace talos::machined {

struct IgnoredReports : VolumeReports {
  void report(kj::StringPtr, const VolumeReport&) override {}
  void reportKeys(kj::StringPtr, const KeysReport&) override {}
  void reportFailure(kj::StringPtr, kj::StringPtr) override {}
};

}  // namespace talos::machined
