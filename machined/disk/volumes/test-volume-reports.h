// For tests: discards reports of volumes. A fixture overrides the methods that it checks.
#pragma once

#include "machined/disk/volumes/system-partitions.h"

namespace talos::machined {

struct IgnoredReports : VolumeReports {
  void report(kj::StringPtr, const VolumeReport&) override {}
  void reportKeys(kj::StringPtr, const KeysReport&) override {}
  void reportFailure(kj::StringPtr, kj::StringPtr) override {}
};

}  // namespace talos::machined
