#include "common/cel/volume-selectors.h"

#include <gtest/gtest.h>

namespace talos::cel {
namespace {

bool selectsDisk(kj::StringPtr text) {
  auto compiled = compileDiskSelector(text);
  EXPECT_TRUE(compiled.mistake == nullptr) << text.cStr();
  return selects(compiled.program, {.size = uint64_t{60} << 30,
                                    .model = "QEMU HARDDISK",
                                    .serial = "a-1",
                                    .transport = "virtio",
                                    .devPath = "/dev/vdb"});
}

}  // namespace

// Catches: a property that is compared with another one's value; units of 1000 for those of 1024.
TEST(DiskSelector, PropertiesAreThoseOfTheDisk) {
  for (auto text : {"disk.size > 50u * GB"_kj, "disk.size == 60u * GiB"_kj,
                    "disk.size >= 60 * 1"_kj, "!system_disk && disk.transport == \"virtio\""_kj,
                    "glob(\"QEMU*\", disk.model)"_kj, "disk.dev_path.startsWith(\"/dev/vd\")"_kj,
                    "disk.serial != \"\""_kj, "!disk.rotational && !disk.readonly"_kj}) {
    EXPECT_TRUE(selectsDisk(text)) << text.cStr();
  }
  for (auto text : {"system_disk"_kj, "disk.size > 60u * GiB"_kj, "glob(\"QEMU\", disk.model)"_kj,
                    "disk.transport == \"nvme\""_kj, "glob(\"?\", disk.serial)"_kj}) {
    EXPECT_FALSE(selectsDisk(text)) << text.cStr();
  }
}

// Catches: a selector that takes a disk although it cannot be evaluated.
TEST(DiskSelector, DivisionByZeroSelectsNoDisk) {
  EXPECT_FALSE(selectsDisk("disk.size / disk.io_size == 0u"));
}

TEST(DiskSelector, UnknownNameIsAMistake) {
  for (auto text : {"disk.sise > 1u"_kj, "volume.label == \"a\""_kj, "disk"_kj, "disk.size"_kj,
                    "true.size"_kj, "disk.size.size > 1u"_kj}) {
    EXPECT_FALSE(compileDiskSelector(text).mistake == nullptr) << text.cStr();
  }
}

TEST(VolumeSelector, PropertiesAreThoseOfVolumeAndDisk) {
  auto compiled = compileVolumeSelector(
      "volume.partition_label == \"old\" && volume.name == \"ext4\" && disk.serial == \"s\"");
  ASSERT_TRUE(compiled.mistake == nullptr);
  DiskProperties disk{.serial = "s"};
  EXPECT_TRUE(selects(compiled.program, {.name = "ext4", .partitionLabel = "old"}, disk));
  EXPECT_FALSE(selects(compiled.program, {.name = "xfs", .partitionLabel = "old"}, disk));
}

}  // namespace talos::cel
