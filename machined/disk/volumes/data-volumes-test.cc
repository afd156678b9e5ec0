#include "machined/disk/volumes/test-data-volumes.h"

namespace talos::machined {

TEST_F(DataVolumesTest, VolumeIsMadeOnTheEmptyDiskAndMounted) {
  want("u-data");
  auto plan = data.plan(machine.asReader()).wait(io.waitScope);
  EXPECT_EQ("makes partition u-data of 2 GiB on /dev/vdb", kj::strArray(plan, "\n"));
  EXPECT_EQ("", log) << "a plan writes";
  pass();
  EXPECT_EQ("add format finish mount:/dev/vdb1:/var/mnt/data", log);
  EXPECT_EQ("ready /var/mnt/data", reports.volumes["u-data"]);
  ASSERT_EQ(1u, parts.size());
  EXPECT_EQ("u-data", parts[0].name);
  pass();
  EXPECT_EQ("mount:/dev/vdb1:/var/mnt/data", log) << "after a boot";
}

// Catches: a removed document whose partition goes with it, or that nothing says anything about.
TEST_F(DataVolumesTest, VolumeWithoutItsDocumentKeepsItsPartition) {
  putRecord<rpc::VolumeStatusSpec>(store, "u-old", [](auto out) {
    out.setPhase("ready");
    out.setLocation("/dev/vdb1");
    out.setTarget("/var/mnt/old");
  });
  parts.push_back({"u-old", kMiB, kGiB, true});
  auto plan = data.plan(machine.asReader()).wait(io.waitScope);
  EXPECT_EQ("stops the use of u-old; its data stay on /dev/vdb1", kj::strArray(plan, "\n"));
  pass();
  EXPECT_EQ("", log);
  EXPECT_EQ(1u, parts.size());
  EXPECT_THAT(said, HasSubstr("u-old: not used any more, because its document was removed; the "
                              "data stay on /dev/vdb1"));
  EXPECT_TRUE(store.tryGet<rpc::VolumeStatusSpec>("u-old") == nullptr);
}

// Catches: a cut after which no boot completes the volume, or one formats a volume with data.
TEST_F(DataVolumesTest, EachCutLeavesAStateFromWhichTheNextPassContinues) {
  want("u-data");
  for (unsigned at = 1; at <= 3; ++at) {
    for (bool late : {false, true}) {
      SCOPED_TRACE(at * 10 + late);
      parts.clear();
      dropVolumeRecord(tree.at("volumes"), "u-data");
      luks.content = Luks::Content::EMPTY;
      failAt = at, effective = late;
      pass();
      EXPECT_THAT(reports.volumes["u-data"], HasSubstr("the power is gone"));
      failAt = 0;
      pass();
      EXPECT_EQ("ready /var/mnt/data", reports.volumes["u-data"]);
      ASSERT_EQ(1u, parts.size());
      EXPECT_TRUE(parts[0].made);
      EXPECT_FALSE(parts[0].unfinished);
    }
  }
}

TEST_F(DataVolumesTest, DiskWithDataOfOthersIsNotTaken) {
  want("u-data", "disk.dev_path == \"/dev/vda\"");
  pass();
  EXPECT_EQ("", log);
  EXPECT_EQ("waiting no disk can take it: /dev/vda: it holds ext4 \"photos\"",
            reports.volumes["u-data"]);
}

TEST_F(DataVolumesTest, PartitionGrowsBeforeItIsMounted) {
  parts.push_back({"u-data", kMiB, kGiB, true});
  auto volume = want("u-data");
  pass();
  EXPECT_EQ("mount:/dev/vdb1:/var/mnt/data", log) << "it does not grow without being asked to";
  volume.getSize().setGrows(true);
  pass();
  EXPECT_EQ("grow mount:/dev/vdb1:/var/mnt/data", log);
  EXPECT_EQ(2 * kGiB, parts[0].bytes);
  EXPECT_EQ(2 * kGiB, reports.bytes["u-data"]) << "the size before it has grown";
}

// Catches: a volume without a readable file system that is formatted although the installer, which
// looks at its head, refuses.
TEST_F(DataVolumesTest, VolumeWithoutAFileSystemIsNotFormattedIfItIsNotEmpty) {
  parts.push_back({"u-data", kMiB, kGiB, true});
  want("u-data");
  machine.getVolumes()[0].getSize().setGrows(true);
  machine.getVolumes()[0].getSize().setMost(kGiB);
  parts[0].made = false;
  luks.content = Luks::Content::OTHER;
  pass();
  EXPECT_THAT(reports.volumes["u-data"], HasSubstr("failed /dev/vdb1 is not empty"));
  luks.content = Luks::Content::EMPTY;
  pass();
  EXPECT_THAT(reports.volumes["u-data"],
              HasSubstr("failed /dev/vdb1 was made before, and begins with zeros now"));
  EXPECT_EQ("", log);
}

// Catches: a volume that is made again while the disk with its data is missing or unreadable; a
// record that no operator can drop.
TEST_F(DataVolumesTest, VolumeIsNotMadeTwice) {
  want("u-data");
  pass();
  ASSERT_EQ("ready /var/mnt/data", reports.volumes["u-data"]);
  unreadable = true;
  pass();
  EXPECT_EQ("", log);
  EXPECT_EQ("waiting /dev/vdb could not be read: it cannot be read", reports.volumes["u-data"]);
  unreadable = false;
  parts.clear();  // its disk is replaced by an empty one
  pass();
  EXPECT_EQ("", log);
  EXPECT_THAT(reports.volumes["u-data"], HasSubstr("is missing; connect that disk"));
  machine.initVolumes(0);
  pass();
  want("u-data");
  luks.content = Luks::Content::EMPTY;
  pass();
  EXPECT_EQ("add format finish mount:/dev/vdb1:/var/mnt/data", log);
}

// Catches: an attempt at each event of the kernel, of which each attempt causes some.
TEST_F(DataVolumesTest, FailureIsRepeatedWithPauses) {
  using Occasion = DataVolumes::Occasion;
  want("u-data");
  failAt = 1;
  pass();
  EXPECT_THAT(reports.volumes["u-data"],
              HasSubstr("failed the power is gone; to use another disk, change the diskSelector"));
  pass(Occasion::kEvent);
  EXPECT_EQ(0u, calls);
  EXPECT_THAT(reports.volumes["u-data"], HasSubstr("failed the power is gone"));
  failAt = 0;
  expectReadyAfter(31 * kj::SECONDS);
}

// Catches: a disk for a pod that a waiting volume takes.
TEST_F(DataVolumesTest, DiskThatIsPluggedInIsTakenAtTheNextApply) {
  want("u-data");
  diskNames = {"vda"_kj};
  pass();
  diskNames = {"vda"_kj, "vdb"_kj};
  pass(DataVolumes::Occasion::kEvent);
  EXPECT_EQ("", log);
  EXPECT_THAT(reports.volumes["u-data"], HasSubstr("/dev/vdb: it appeared after the boot"));
  pass();
  EXPECT_EQ("ready /var/mnt/data", reports.volumes["u-data"]);
}

}  // namespace talos::machined
