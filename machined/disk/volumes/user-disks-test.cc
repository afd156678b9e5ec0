#include "machined/disk/volumes/user-disks.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

Volume volume(kj::StringPtr name, kj::StringPtr disk, kj::Maybe<Superblock> content = nullptr) {
  BlockDevice device;
  device.name = kj::str(name);
  device.disk = kj::str(disk);
  device.whole = name == disk;
  return {kj::mv(device), kj::mv(content)};
}
kj::Vector<Volume> machineVolumes() {
  kj::Vector<Volume> volumes;
  volumes.add(volume("vda", "vda"));
  volumes.add(volume("vda1", "vda", Superblock{FileSystem::kVfat, kj::str("EFI")}));
  volumes.add(volume("vdb", "vdb"));
  volumes.add(volume("vdb1", "vdb", Superblock{FileSystem::kXfs, kj::str()}));
  volumes.add(volume("vdb2", "vdb"));
  volumes.add(volume("vdb10", "vdb", Superblock{FileSystem::kExt4, kj::str("old data")}));
  return volumes;
}

kj::String found(kj::ArrayPtr<const Volume> volumes, kj::StringPtr device, size_t index) {
  kj::String text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&] { text = userPartition(volumes, device, index).device.node(); })) {
    text = kj::str(messageOf(*e));
  }
  return text;
}

// Catches: a partition of another disk, one that holds something else, or nothing, and is mounted
// all the same.
TEST(UserPartition, IsTheOneThatIsNamedOrNone) {
  auto volumes = machineVolumes();
  EXPECT_EQ(found(volumes, "/dev/vdb", 0), "/dev/vdb1");
  EXPECT_EQ(found(volumes, "/dev/vdb", 1),
            "machine.disks: /dev/vdb2 has no file system; make an XFS there, or empty the disk");
  EXPECT_EQ(found(volumes, "/dev/vdb", 2),
            "machine.disks: /dev/vdb10 holds ext4 \"old data\", not XFS; empty the disk, or choose "
            "another one");
  EXPECT_EQ(found(volumes, "/dev/vdb", 3), "machine.disks: /dev/vdb has no partition 4");
  EXPECT_EQ(found(volumes, "/dev/vda", 0),
            "machine.disks: /dev/vda1 holds vfat \"EFI\", not XFS; empty the disk, or choose "
            "another one");
  EXPECT_EQ(found(volumes, "/dev/vdc", 0), "machine.disks: /dev/vdc has no partition 1");
  volumes[3].device.readOnly = true;
  EXPECT_EQ(found(volumes, "/dev/vdb", 0), "machine.disks: /dev/vdb1 is read-only");
  volumes[4].problem = kj::str("did not respond within 10 s");
  EXPECT_EQ(found(volumes, "/dev/vdb", 1), "machine.disks: /dev/vdb2 did not respond within 10 s");
}

}  // namespace
}  // namespace talos::machined
