#include "machined/disk/volumes/volume-plan.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <string>

namespace talos::machined {
namespace {

using config::StorageVolume;

constexpr uint64_t kMiB = 1u << 20, kGiB = 1u << 30;

struct WantedVolume {
  kj::StringPtr id;
  uint64_t least = 0, most = 0;
  unsigned percent = 0;
  bool leaves = false, grows = false;
  kj::StringPtr selector = "!system_disk"_kj;
};

DiskOfVolumes disk(kj::StringPtr name, uint64_t bytes, bool systemDisk = false) {
  DiskOfVolumes result;
  result.facts.name = kj::str(name);
  result.facts.bytes = bytes;
  result.systemDisk = systemDisk;
  return result;
}

struct VolumePlanTest : testing::Test {
  ~VolumePlanTest() noexcept override {}
  kj::Vector<DiskOfVolumes> disks;

  void partition(size_t index, kj::StringPtr name, uint64_t begin, uint64_t bytes) {
    disks[index].partitions.add(DiskOfVolumes::Partition{kj::str(name), begin, bytes});
  }
  std::string planOf(std::initializer_list<WantedVolume> wanted) {
    capnp::MallocMessageBuilder message;
    auto list =
        message.initRoot<config::Machine>().initVolumes(static_cast<unsigned>(wanted.size()));
    unsigned i = 0;
    for (auto& w : wanted) {
      auto volume = list[i++];
      volume.setId(w.id);
      volume.setSelector(w.selector);
      auto size = volume.initSize();
      size.setLeast(w.least);
      size.setMost(w.most);
      size.setMostPercent(static_cast<uint8_t>(w.percent));
      size.setLeavesMost(w.leaves);
      size.setGrows(w.grows);
    }
    return kj::strArray(textOfPlan(planVolumes(list.asReader(), disks)), "\n").cStr();
  }
};

FoundOnDisk content(kj::Maybe<kj::StringPtr> table, std::initializer_list<kj::StringPtr> names,
                    kj::StringPtr type = ""_kj) {
  FoundOnDisk found;
  KJ_IF_MAYBE (t, table) found.table = kj::str(*t);
  for (auto name : names) found.partitions.add(kj::str(name));
  if (type.size() > 0) found.volumes.add(FoundOnDisk::Volume{kj::str(type), kj::str("old")});
  return found;
}

std::string unfit(const FoundOnDisk& found, bool systemDisk = false) {
  return unfitFor(found, found.partitions.size(), systemDisk).orDefault(kj::str("fit")).cStr();
}

}  // namespace

// Catches: a disk with data of others that is taken; a disk of volumes that no second one gets.
TEST(VolumeDisk, OnlyEmptyDisksAndThoseOfVolumesAreFit) {
  EXPECT_EQ("fit", unfit(content(nullptr, {})));
  EXPECT_EQ("fit", unfit(content("gpt"_kj, {"u-data", "s-swap.unfinished"})));
  EXPECT_EQ("it holds 2 partitions (gpt): u-data, photos",
            unfit(content("gpt"_kj, {"u-data", "photos"})));
  EXPECT_EQ("it holds an empty partition table (gpt)", unfit(content("gpt"_kj, {})));
  EXPECT_EQ("it holds 1 partition (dos): u-data", unfit(content("dos"_kj, {"u-data"})));
  for (auto type : {"ext4"_kj, "LVM2_member"_kj, "linux_raid_member"_kj, "crypto_LUKS"_kj}) {
    EXPECT_EQ(kj::str("it holds ", type, " \"old\"").cStr(), unfit(content(nullptr, {}, type)));
  }
  auto system = content("gpt"_kj, {"EFI", "BIOS", "BOOT", "META", "STATE", "EPHEMERAL", "u-data"});
  EXPECT_EQ("fit", unfit(system, true));
  EXPECT_NE("fit", unfit(system)) << "of another node";
  EXPECT_FALSE(unfitFor(content("gpt"_kj, {"u-data"}), 2, false) == nullptr)
      << "the kernel has another partition";
}

TEST_F(VolumePlanTest, EmptyDiskGetsThePartition) {
  disks.add(disk("vda", 20 * kGiB, true));
  disks.add(disk("vdb", 20 * kGiB));
  EXPECT_EQ("makes partition u-data of 10 GiB on /dev/vdb",
            planOf({{.id = "u-data", .least = kGiB, .most = 10 * kGiB}}));
  EXPECT_EQ("makes partition u-data of 19.9 GiB on /dev/vdb",
            planOf({{.id = "u-data", .least = kGiB}}));
  EXPECT_EQ("makes partition u-data of 9.9 GiB on /dev/vdb",
            planOf({{.id = "u-data", .least = kGiB, .percent = 50}}));
  EXPECT_EQ("makes partition u-data of 14.9 GiB on /dev/vdb",
            planOf({{.id = "u-data", .least = kGiB, .most = 5 * kGiB, .leaves = true}}));
}

// Catches: a reason that is left out; a percentage that makes a volume smaller than its minimum.
TEST_F(VolumePlanTest, NoDiskFitsSoTheVolumeWaitsWithTheReasons) {
  EXPECT_EQ("u-data waits: its selector selects no disk", planOf({{.id = "u-data", .least = 1}}));
  disks.add(disk("vdb", 2 * kGiB));
  disks.add(disk("vdc", 20 * kGiB)).unfit = kj::str("it holds ext4");
  disks.add(disk("vdd", 20 * kGiB)).readOnly = true;
  auto expected =
      "u-data waits: no disk can take it: /dev/vdb: it has 2046 MiB free, and 5 GiB are needed; "
      "/dev/vdc: it holds ext4; /dev/vdd: it is read-only";
  EXPECT_EQ(std::string(expected).replace(std::string(expected).find("2046 MiB"), 8, "1.9 GiB"),
            planOf({{.id = "u-data", .least = 5 * kGiB}}));
  EXPECT_NE(std::string::npos,
            planOf({{.id = "u-data", .least = 2 * kGiB, .percent = 5}}).find("waits"));
}

// Catches: two volumes in one place; a volume without a maximum that leaves nothing to the others.
TEST_F(VolumePlanTest, SeveralVolumesShareADisk) {
  disks.add(disk("vdb", 20 * kGiB));
  EXPECT_EQ(
      "makes partition u-b of 4 GiB on /dev/vdb\n"
      "makes partition u-c of 5 GiB on /dev/vdb\n"
      "makes partition u-a of 10.9 GiB on /dev/vdb",
      planOf({{.id = "u-a", .least = kGiB},
              {.id = "u-c", .least = kGiB, .most = 5 * kGiB},
              {.id = "u-b", .least = kGiB, .most = 4 * kGiB}}));
}

// Catches: a second partition for a volume that has one, on the disk that its selector names.
TEST_F(VolumePlanTest, PartitionWithTheLabelIsTheVolumeOnWhateverDisk) {
  disks.add(disk("vdb", 20 * kGiB));
  disks.add(disk("vdc", 20 * kGiB));
  partition(1, "u-data", kMiB, kGiB);
  EXPECT_EQ("",
            planOf({{.id = "u-data", .least = kGiB, .selector = "disk.dev_path == \"/dev/vdb\""}}));
  partition(1, "u-other.unfinished", 2 * kGiB, kGiB);
  EXPECT_EQ("completes partition u-other of 1 GiB on /dev/vdc",
            planOf({{.id = "u-other", .least = kGiB}}));
  partition(0, "u-data", kMiB, kGiB);
  EXPECT_EQ("u-data cannot be used: more than one partition is named u-data",
            planOf({{.id = "u-data", .least = kGiB}}));
}

// Catches: a partition that grows over the next one, shrinks, or grows without being asked.
TEST_F(VolumePlanTest, PartitionGrowsIntoTheSpaceAfterIt) {
  disks.add(disk("vdb", 20 * kGiB));
  partition(0, "u-data", kMiB, 4 * kGiB);
  EXPECT_EQ("", planOf({{.id = "u-data", .least = kGiB}}));
  EXPECT_EQ("grows partition u-data on /dev/vdb from 4 GiB to 19.9 GiB",
            planOf({{.id = "u-data", .least = kGiB, .grows = true}}));
  EXPECT_EQ("grows partition u-data on /dev/vdb from 4 GiB to 6 GiB",
            planOf({{.id = "u-data", .least = kGiB, .most = 6 * kGiB, .grows = true}}));
  EXPECT_EQ("", planOf({{.id = "u-data", .least = kGiB, .most = 2 * kGiB, .grows = true}}));
  partition(0, "u-next", 5 * kGiB, kGiB);
  EXPECT_EQ("grows partition u-data on /dev/vdb from 4 GiB to 4.9 GiB",
            planOf({{.id = "u-data", .least = kGiB, .grows = true}}));
}

// Catches: a volume that is put into the space of EPHEMERAL.
TEST_F(VolumePlanTest, SystemDiskHasTheSpaceAfterEphemeral) {
  disks.add(disk("vda", 20 * kGiB, true));
  partition(0, "EPHEMERAL", kMiB, 10 * kGiB);
  EXPECT_EQ("makes partition u-data of 9.9 GiB on /dev/vda",
            planOf({{.id = "u-data", .least = kGiB, .selector = "system_disk"}}));
}

TEST_F(VolumePlanTest, SelectorWithAMistakeFails) {
  disks.add(disk("vdb", 20 * kGiB));
  EXPECT_NE(
      std::string::npos,
      planOf({{.id = "u-data", .least = 1, .selector = "disk.sise > 1u"}}).find("cannot be used"));
}

}  // namespace talos::machined
