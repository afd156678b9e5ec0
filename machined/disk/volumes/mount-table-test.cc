#include "machined/disk/volumes/mount-table.h"

#include <gtest/gtest.h>

namespace talos::machined {

// Catches: a part of a file system that is shown elsewhere, or its second mount, taken for another
// file system; a mount without a device; a blank in a name.
TEST(MountTable, FileSystemsOnDevices) {
  auto mounts = deviceMounts(
      "1 0 7:0 / / ro - squashfs /dev/loop0 ro\n"
      "2 1 254:6 / /var rw,noatime shared:1 - xfs /dev/vda6 rw,attr2\n"
      "3 1 0:30 / /opt rw - overlay overlay rw\n"
      "4 1 254:6 /etc/x /etc/a ro - xfs /dev/vda6 rw\n"
      "5 1 254:6 / /again rw - xfs /dev/vda6 rw\n"
      "6 1 254:7 / /var/mnt/a\\040b rw - ext4 /dev/vda7 rw\n"
      "7 1 254:8 /folder /var/lib/part rw - xfs /dev/vda8 rw\n"
      "half of a line\n");
  kj::Vector<kj::String> shown;
  for (auto& m : mounts) {
    shown.add(kj::str(m.source, " ", m.target, " ", m.type, " ", kj::strArray(m.options, "+")));
  }
  EXPECT_EQ(
      kj::strArray(shown, "|"),
      "/dev/loop0 / squashfs ro|/dev/vda6 /var xfs rw+noatime|/dev/vda7 /var/mnt/a b ext4 rw");
}

}  // namespace talos::machined
