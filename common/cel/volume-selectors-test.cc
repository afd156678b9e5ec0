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
  for (auto text :
       {"disk.size > 50u * GB"_kj, "disk.size == 60u * GiB"_kj, "disk.size >= 60 * 1"_kj,
        "!system_disk && disk.transport == \"virtio\""_kj, "glob(\"QEMU*\", disk.model)"_kj,
        "disk.dev_path.startsWith(\"/dev/vd\")"_kj, "disk.serial != \"\""_kj,
        "disk.transport in [\"nvme\", \"virtio\"]"_kj, "!disk.rotational && !disk.readonly"_kj}) {
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

// Catches: an expression of Talos' documentation whose mistake does not say what to write.
TEST(DiskSelector, MistakesSayWhatThereIs) {
  auto mistakeOf = [](kj::StringPtr text, const Compiled& compiled) {
    return std::string(
        render(text, KJ_ASSERT_NONNULL(compiled.mistake, "no mistake", text)).cStr());
  };
  auto ofDisk = [&](kj::StringPtr text) { return mistakeOf(text, compileDiskSelector(text)); };
  auto ofVolume = [&](kj::StringPtr text) { return mistakeOf(text, compileVolumeSelector(text)); };
  EXPECT_EQ("at \"100 * GiB\": * does not take int and uint; write 100u",
            ofDisk("disk.size > 100 * GiB"));
  EXPECT_EQ("at \"disk.sise > 1u\": there is no variable disk.sise (did you mean disk.size?)",
            ofDisk("disk.sise > 1u"));
  EXPECT_EQ(
      "at \"disk.symlinks\": there is no variable disk.symlinks; disk has bus_path, cdrom, "
      "dev_path, io_size, modalias, model, readonly, rotational, sector_size, serial, size, "
      "sub_system, transport, uuid, wwid",
      ofDisk("\"/dev/disk/by-id/a\" in disk.symlinks"));
  EXPECT_EQ(
      "at \"volume.partition_uui…\": there is no variable volume.partition_uuid; volume has "
      "dev_path, label, name, offset, parent_dev_path, partition_index, partition_label, size, "
      "type",
      ofVolume("volume.partition_uuid == \"a\""));
  EXPECT_EQ("at \"x\": there is no variable x; there are disk.…, system_disk", ofDisk("x"));
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
