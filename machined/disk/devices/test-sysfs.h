// A sysfs of block devices for tests.
#pragma once

#include "common/testing/test-tree.h"

namespace talos::machined {

// A sysfs with one folder for each device, as the kernel lays it out.
struct Sysfs : TestTree {
  void disk(kj::StringPtr name, kj::StringPtr sectors) {
    auto at = kj::str("devices/x/block/", name);
    file2(at, "size", sectors);
    file2(at, "ro", "0\n");
    file2(at, "uevent", kj::str("MAJOR=254\nDEVNAME=", name, "\nDEVTYPE=disk\n"));
    directory("class/block");
    link(kj::str("class/block/", name), kj::str("../../", at));
  }
  void partition(kj::StringPtr disk, kj::StringPtr name, kj::StringPtr label) {
    auto at = kj::str("devices/x/block/", disk, "/", name);
    file2(at, "size", "2048\n");
    file2(at, "ro", "1\n");
    file2(at, "partition", "1\n");
    file2(at, "uevent", kj::str("DEVTYPE=partition\nPARTN=1\nPARTNAME=", label, "\n"));
    link(kj::str("class/block/", name), kj::str("../../", at));
  }
  void file2(kj::StringPtr folder, kj::StringPtr name, kj::StringPtr text) {
    directory(folder);
    file(kj::str(folder, "/", name), text);
  }
};

}  // namespace talos::machined
