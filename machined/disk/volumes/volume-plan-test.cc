#include "machined/disk/volumes/volume-plan.h"
#include "machined/disk/volumes/test-volume-fakes.h"

#include <capnp/message.h>
#include <gmock/gmock.h>

#include <string>

namespace talos::machined {
namespace {

constexpr const char* kUses = "uses partition u-data of 1 GiB on /dev/vdb, with its data";

using config::StorageVolume;

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
  kj::Vector<VolumeRecord> records;
  bool inUse = false;

  DiskOfVolumes::Partition& partition(size_t index, kj::StringPtr name, uint64_t begin,
                                      uint64_t bytes) {
    auto& on = disks[index].partitions;
    auto number = static_cast<unsigned>(on.size() + 1);
    return on.add(DiskOfVolumes::Partition{number, kj::str(name), begin, bytes});
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
    auto plan = planVolumes(list.asReader(), disks, records);
    for (auto& placement : plan) placement.inUse = inUse;
    return kj::strArray(textOfPlan(plan), "\n").cStr();
  }
};

FoundOnDisk content(kj::Maybe<kj::StringPtr> table, std::initializer_list<kj::StringPtr> names,
                    kj::StringPtr type = ""_kj) {
  FoundOnDisk found;
  KJ_IF_MAYBE (t, table) found.table = kj::str(*t);
  for (auto name : names) {
    found.partitions.add(kj::str(name));
    auto number = static_cast<unsigned>(found.places.size() + 1);
    found.places.add(FoundOnDisk::Place{.number = number, .name = kj::str(name)});
  }
  if (type.size() > 0) found.volumes.add(FoundOnDisk::Volume{kj::str(type), kj::str("old")});
  return found;
}

std::string unfit(const FoundOnDisk& found, bool systemDisk = false) {
  auto known = KJ_MAP(place, found.places) {
    return place.number;
  };
  return unfitFor(found, known, systemDisk).orDefault(kj::str("fit")).cStr();
}

}  // namespace

// Catches: a disk with data of others that is taken; a disk of volumes that no second one gets.
TEST(VolumeDisk, OnlyEmptyDisksAndThoseOfVolumesAreFit) {
  EXPECT_EQ("fit", unfit(content(nullptr, {})));
  EXPECT_EQ("fit", unfit(content("gpt"_kj, {"u-data", "s-swap"})));
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
  unsigned two[] = {1, 2};
  EXPECT_FALSE(unfitFor(content("gpt"_kj, {"u-data"}), two, false) == nullptr)
      << "the kernel has another partition";
  auto gap = content("gpt"_kj, {"u-a", "u-b"});
  gap.places[1].number = 3;
  EXPECT_EQ("the numbers of its partitions have a gap", unfit(gap));
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
  EXPECT_EQ("u-data waits: its selector selects no disk; see talosctl disks",
            planOf({{.id = "u-data", .least = 1}}));
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
  EXPECT_EQ("uses partition u-data of 1 GiB on /dev/vdc, with its data",
            planOf({{.id = "u-data", .least = kGiB, .selector = "disk.dev_path == \"/dev/vdb\""}}));
  partition(1, "u-other", 2 * kGiB, kGiB).unfinished = true;
  EXPECT_EQ("completes partition u-other of 1 GiB on /dev/vdc",
            planOf({{.id = "u-other", .least = kGiB}}));
  partition(0, "u-data", kMiB, kGiB);
  EXPECT_EQ("u-data cannot be used: more than one partition is named u-data",
            planOf({{.id = "u-data", .least = kGiB}}));
}

// Catches: a second, empty volume beside one with data on a disk that could not be read.
TEST_F(VolumePlanTest, NothingNewIsPlacedWhileADiskThatMayHaveItCannotBeRead) {
  disks.add(disk("vdb", 20 * kGiB));
  disks.add(disk("vdc", 20 * kGiB)).unread = kj::str("it did not respond within 10 s");
  EXPECT_EQ("u-data waits: /dev/vdc could not be read: it did not respond within 10 s",
            planOf({{.id = "u-data", .least = kGiB}}));
  EXPECT_EQ("makes partition u-data of 19.9 GiB on /dev/vdb",
            planOf({{.id = "u-data", .least = kGiB, .selector = "disk.dev_path == \"/dev/vdb\""}}));
  partition(0, "u-data", kMiB, kGiB).unfinished = true;
  EXPECT_EQ("u-data waits: /dev/vdc could not be read: it did not respond within 10 s",
            planOf({{.id = "u-data", .least = kGiB}}));
  disks[0].partitions.clear();
  partition(1, "u-data", kMiB, kGiB);
  EXPECT_EQ("u-data waits: /dev/vdc could not be read: it did not respond within 10 s",
            planOf({{.id = "u-data", .least = kGiB, .selector = "disk.dev_path == \"/dev/vdb\""}}));
}

// Catches: a gap in the numbers that hides a volume, or gives it another one's node.
TEST_F(VolumePlanTest, VolumeOnADiskThatTakesNoOtherIsFound) {
  disks.add(disk("vdb", 20 * kGiB)).unfit = kj::str("the numbers of its partitions have a gap");
  disks.add(disk("vdc", 20 * kGiB));
  partition(0, "u-data", kMiB, kGiB).number = 3;
  EXPECT_EQ(kUses, planOf({{.id = "u-data", .least = kGiB}}));
}

// Catches: a volume that is made again, empty, on another disk while its own is missing.
TEST_F(VolumePlanTest, VolumeThatWasMadeWaitsForItsDisk) {
  constexpr auto kMissing =
      "u-data waits: its partition P on the disk D is missing; connect that disk, or, to make the "
      "volume again without its data, remove its document, apply the config, and add the document "
      "again";
  disks.add(disk("vdb", 20 * kGiB));
  records.add(VolumeRecord{kj::str("u-data"), kj::str("D"), kj::str("P")});
  EXPECT_EQ(kMissing, planOf({{.id = "u-data", .least = kGiB}}));
  partition(0, "u-data", kMiB, kGiB).id = kj::str("Q");
  EXPECT_EQ(std::string(kMissing) + "; /dev/vdb has another partition of this name",
            planOf({{.id = "u-data", .least = kGiB}}));
  disks[0].partitions[0].id = kj::str("P");
  EXPECT_EQ(kUses, planOf({{.id = "u-data", .least = kGiB}}));
  records[0].partition = kj::String();
  EXPECT_EQ(kUses, planOf({{.id = "u-data", .least = kGiB}})) << "a damaged record";
  disks[0].partitions.clear();
  EXPECT_NE(std::string::npos, planOf({{.id = "u-data", .least = kGiB}}).find("is missing"));
}

// Catches: a volume that its record names, and that is given up because a copy is plugged in.
TEST_F(VolumePlanTest, RecordedPartitionIsFoundBesideItsCopies) {
  disks.add(disk("vdb", 20 * kGiB));
  disks.add(disk("vdc", 20 * kGiB));
  partition(0, "u-data", kMiB, kGiB).id = kj::str("first");
  partition(1, "u-data", kMiB, kGiB).id = kj::str("second");
  EXPECT_THAT(planOf({{.id = "u-data", .least = kGiB}}),
              testing::HasSubstr("more than one partition is named u-data"));
  records.add(VolumeRecord{kj::str("u-data"), kj::str("disk"), kj::str("first")});
  EXPECT_EQ(kUses, planOf({{.id = "u-data", .least = kGiB}}));
  disks[1].unread = kj::str("did not respond");
  EXPECT_EQ(kUses, planOf({{.id = "u-data", .least = kGiB}}));
}

// Catches: a disk that was attached for a pod and is divided for a volume.
TEST_F(VolumePlanTest, DiskThatAppearsLaterIsNotDivided) {
  disks.add(disk("vdb", 20 * kGiB)).appeared = true;
  EXPECT_EQ(
      "u-data waits: no disk can take it: /dev/vdb: it appeared after the boot, or machined has "
      "restarted since, so it may be for a pod; to use it, apply the config again",
      planOf({{.id = "u-data", .least = kGiB}}));
  partition(0, "u-data", kMiB, kGiB);
  EXPECT_EQ(kUses, planOf({{.id = "u-data", .least = kGiB}}));
}

// Catches: the mount of a partition that is a volume of this node, or a part of an array.
TEST_F(VolumePlanTest, ExistingVolumeIsNoneOfThisNode) {
  disks.add(disk("vdb", 20 * kGiB));
  kj::Vector<Volume> volumes;
  auto& volume = volumes.add();
  volume.device.name = kj::str("vdb1");
  volume.device.disk = kj::str("vdb");
  volume.device.whole = false;
  volume.device.partitionName = kj::str("u-data");
  volume.content = Superblock{FileSystem::kXfs, kj::str()};
  capnp::MallocMessageBuilder message;
  auto wanted = message.initRoot<StorageVolume>();
  wanted.setSelector("volume.name == \"xfs\"");
  kj::Vector<kj::String> ours;
  auto found = [&]() -> std::string {
    kj::Vector<kj::String> leftOut;
    auto result = existingVolume(wanted, volumes, disks, ours, "", leftOut);
    if (result != nullptr) return "found";
    return kj::strArray(leftOut, "|").cStr();
  };
  EXPECT_EQ("found", found()) << "a volume of no document of this node";
  ours.add(kj::str("u-data"));
  EXPECT_EQ("/dev/vdb1 is the volume u-data", found());
  ours.clear();
  volume.device.held = true;
  EXPECT_EQ("/dev/vdb1 is in use by another device", found());
  volume.device.held = false;
  disks[0].unread = kj::str("it did not respond");
  EXPECT_EQ("/dev/vdb1 is on a disk that could not be read: it did not respond", found());
}

// Catches: a partition that grows over the next one, shrinks, or grows without being asked.
TEST_F(VolumePlanTest, PartitionGrowsIntoTheSpaceAfterIt) {
  disks.add(disk("vdb", 20 * kGiB));
  partition(0, "u-data", kMiB, 4 * kGiB);
  inUse = true;
  EXPECT_EQ("", planOf({{.id = "u-data", .least = kGiB}}));
  EXPECT_EQ("grows partition u-data on /dev/vdb from 4 GiB to 19.9 GiB at the next boot",
            planOf({{.id = "u-data", .least = kGiB, .grows = true}}));
  inUse = false;
  std::string uses = "uses partition u-data of 4 GiB on /dev/vdb, with its data";
  EXPECT_EQ(uses, planOf({{.id = "u-data", .least = kGiB}}));
  uses += "\n";
  EXPECT_EQ(uses + "grows partition u-data on /dev/vdb from 4 GiB to 19.9 GiB",
            planOf({{.id = "u-data", .least = kGiB, .grows = true}}));
  EXPECT_EQ(uses + "grows partition u-data on /dev/vdb from 4 GiB to 6 GiB",
            planOf({{.id = "u-data", .least = kGiB, .most = 6 * kGiB, .grows = true}}));
  EXPECT_EQ(uses,
            planOf({{.id = "u-data", .least = kGiB, .most = 2 * kGiB, .grows = true}}) + "\n");
  partition(0, "u-next", 5 * kGiB, kGiB);
  EXPECT_EQ(uses + "grows partition u-data on /dev/vdb from 4 GiB to 4.9 GiB",
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
