// Volumes that are in use, or may not be written to: what a pass, the plan, a boot and a shutdown
// do.
#include "common/base/file.h"
#include "machined/disk/volumes/test-data-volumes.h"
#include "machined/disk/volumes/volume-changes.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {

// Catches: a trial after which the disk has a partition that the config of before does not know.
TEST_F(DataVolumesTest, NothingIsMadeWhileSomethingMayGoBack) {
  held = "a config is on trial";
  want("u-data");
  auto plan = data.plan(machine.asReader()).wait(io.waitScope);
  EXPECT_THAT(kj::strArray(plan, "\n").cStr(),
              HasSubstr("nothing is written to disks while a config is on trial"));
  pass();
  EXPECT_EQ("", log);
  EXPECT_EQ("waiting it is not made while a config is on trial", reports.volumes["u-data"]);

  parts.push_back({"u-data", kMiB, kGiB, true});
  machine.getVolumes()[0].getSize().setGrows(true);
  pass();
  EXPECT_EQ("mount:/dev/vdb1:/var/mnt/data", log) << "it exists";
  EXPECT_EQ(
      "UserVolumeConfig[data].provisioning: does not grow to 2 GiB while a config is on trial",
      kj::strArray(data.different(), "|"));
  parts[0].made = false;
  pass();
  EXPECT_EQ("", log) << "an emptied partition is formatted";
  EXPECT_THAT(reports.volumes["u-data"],
              HasSubstr("failed /dev/vdb1 was made before, and begins with zeros now"));
}

// Catches: partitions that are made between the end of the trial of a system and the reboot into
// the other one, or after a boot that failed.
TEST_F(DataVolumesTest, NothingIsMadeBeforeTheNodeEnds) {
  want("u-data");
  auto heldBy = [&]() { return volumesHeld(store).orDefault(kj::String()); };
  EXPECT_EQ("", heldBy());
  for (auto stage : {"trying"_kj, "rebooting"_kj, "done"_kj}) {
    putRecord<rpc::UpgradeStatusSpec>(store, "node", [&](auto out) { out.setStage(stage); });
    EXPECT_EQ(stage == "done" ? "" : "the upgraded system is on trial", heldBy());
  }
  for (auto stage : {"booting"_kj, "running"_kj, "failed"_kj, "shuttingDown"_kj}) {
    putRecord<rpc::MachineStatusSpec>(store, "machine", [&](auto out) { out.setStage(stage); });
    bool ends = stage == "failed" || stage == "shuttingDown";
    EXPECT_EQ(ends ? kj::str("the node is in the stage ", stage) : kj::String(), heldBy());
  }
}

// Catches: a disk that the next installation would refuse, because it holds a volume.
TEST_F(DataVolumesTest, DiskOfTheInstallationStaysEmptyUntilThen) {
  want("u-data");
  machine.getInstall().setDisk("/dev/vdb");
  pass();
  EXPECT_EQ("", log);
  EXPECT_THAT(reports.volumes["u-data"], HasSubstr("/dev/vdb: machine.install.disk names it"));
}

// Catches: a volume that counts as ready because another file system is mounted at its place.
TEST_F(DataVolumesTest, MountPointOfAnotherFileSystemIsNotTaken) {
  parts.push_back({"u-data", kMiB, kGiB, true});
  want("u-data");
  tree.file("mountinfo", "30 1 8:17 / /var/mnt/data rw - xfs /dev/sdb1 rw\n");
  pass();
  EXPECT_EQ("", log);
  EXPECT_EQ("failed /var/mnt/data is used by /dev/sdb1", reports.volumes["u-data"]);
}

// Catches: a shutdown that leaves a mounted volume, because a report has dropped where it is.
TEST_F(DataVolumesTest, AVolumeInUseKeepsItsStatus) {
  want("u-data", "disk.dev_path == \"/dev/sdz\"");
  putRecord<rpc::VolumeStatusSpec>(store, "u-data", [](auto out) {
    out.setPhase("ready");
    out.setLocation("/dev/sdz1");
    out.setMountLocation("/dev/sdz1");
    out.setTarget("/var/mnt/data");
  });
  tree.file("mountinfo", "30 1 8:17 / /var/mnt/data rw - xfs /dev/sdz1 rw\n");
  pass();
  EXPECT_EQ("", reports.volumes["u-data"]) << "its status has changed";
}

TEST_F(DataVolumesTest, SwapInUseGrowsAtTheNextBoot) {
  parts.push_back({"s-swap", kMiB, kGiB, true});
  auto volume = want("s-swap", "disk.dev_path == \"/dev/vda\"");
  volume.setKind(config::StorageVolume::Kind::SWAP);
  volume.setMountpoint("");
  volume.getSize().setGrows(true);
  tree.file("mountinfo", "/dev/vdb1 partition 1048576 0 -2\n");
  pass();
  EXPECT_EQ("", log);
  EXPECT_EQ(
      "SwapVolumeConfig[swap].provisioning.diskSelector: the volume stays on /dev/vdb, which it "
      "does not select|SwapVolumeConfig[swap].provisioning: grows to 2 GiB at the next boot",
      kj::strArray(data.different(), "|"));
}

// Catches: a node that runs out of memory because a document of swap was removed.
TEST_F(DataVolumesTest, SwapThatDoesNotFitIntoMemoryStays) {
  putRecord<rpc::VolumeStatusSpec>(store, "s-swap", [](auto out) {
    out.setPhase("ready");
    out.setMountLocation("/dev/vdb1");
  });
  tree.file("mountinfo", "/dev/vdb1 partition 4194304 2097152 -2\n");
  tree.file("meminfo", "MemTotal: 2000000 kB\nMemAvailable: 1048576 kB\n");
  pass();
  EXPECT_EQ(
      "failed its document was removed, and it is still in use: 2048 MiB of memory are on "
      "/dev/vdb1, and 1024 MiB of memory are available",
      reports.volumes["s-swap"]);
}

// Catches: a pass that mounts a volume again which the shutdown has unmounted; swap that is given
// up before the file systems are written.
TEST_F(DataVolumesTest, ShutdownEndsThePassesAndTakesSwapLast) {
  for (auto id : {"s-swap"_kj, "u-data"_kj}) {
    putRecord<rpc::VolumeStatusSpec>(store, id, [&](auto out) {
      out.setPhase("ready");
      out.setMountLocation(kj::str("/nowhere/", id));
    });
  }
  data.unmountAll().wait(io.waitScope);
  EXPECT_EQ("u-data s-swap ", reports.closed);
  want("u-data");
  pass();
  EXPECT_EQ("", log);
}

// Catches: a boot that waits for a disk that does not respond.
TEST_F(DataVolumesTest, BootWaitsForAMinuteAtMost) {
  want("u-data");
  hangs = true;
  auto boot = data.mountAtBoot(machine.asReader());
  EXPECT_FALSE(boot.poll(io.waitScope));
  timer.advanceTo(timer.now() + 10 * kj::SECONDS);
  EXPECT_FALSE(boot.poll(io.waitScope));
  EXPECT_THAT(said, HasSubstr("waiting up to 60 s for the volumes of documents"));
  timer.advanceTo(timer.now() + 50 * kj::SECONDS);
  EXPECT_TRUE(boot.poll(io.waitScope));
  EXPECT_THAT(said, HasSubstr("the boot continues without"));
}

TEST_F(DataVolumesTest, DiskThatDidNotRespondIsNotLookedAtAgain) {
  want("u-data");
  hangs = true;
  silent = "did not respond within 10 s";
  pass();
  EXPECT_EQ("waiting /dev/vda could not be read: it did not respond within 10 s",
            reports.volumes["u-data"]);
}

// Catches: a volume that waits for ever for a disk that was slow once.
TEST_F(DataVolumesTest, DiskThatCouldNotBeReadIsLookedAtAgain) {
  want("u-data");
  unreadable = true;
  pass();
  EXPECT_EQ("", log);
  unreadable = false;
  expectReadyAfter(31 * kj::SECONDS);
}

TEST_F(DataVolumesTest, DiskThatDidNotRespondIsTriedAgain) {
  want("u-data");
  silent = "did not respond within 10 s";
  pass();
  silent.clear();
  expectReadyAfter(31 * kj::SECONDS);
}

TEST_F(DataVolumesTest, PartitionThatDidNotRespondIsTriedAgain) {
  parts.push_back({"photos", kMiB, kGiB, true});
  want("e-data", "volume.name == \"xfs\"").setKind(config::StorageVolume::Kind::EXISTING);
  silentParts = "did not respond within 10 s";
  pass();
  EXPECT_THAT(reports.volumes["e-data"], HasSubstr("waiting its selector selects no volume"));
  silentParts.clear();
  expectReadyAfter(31 * kj::SECONDS, "e-data");
}

// Catches: a pass that ends early and is never repeated, or takes the disks of the boot for ones
// that were plugged in later.
TEST_F(DataVolumesTest, PassThatFailedIsRepeated) {
  want("u-data");
  unlisted = true;
  pass();
  EXPECT_THAT(said, HasSubstr("warning: the volumes of the config: all threads hang"));
  pass(DataVolumes::Occasion::kEvent);
  unlisted = false;
  expectReadyAfter(31 * kj::SECONDS);
}

// Catches: a header of another partition of that name that is restored on this one; the backup of
// its own header that is lost at the next pass.
TEST_F(DataVolumesTest, BackupOfAnotherPartitionIsSetAside) {
  keepsHeaders = true;
  tree.directory("luks");
  tree.file("luks/u-data", "of another one");
  parts.push_back({"u-data", kMiB, kGiB, true});
  contentOfParts = FileSystem::kLuks;
  want("u-data").initEncryption();
  pass();
  EXPECT_EQ("of another one"_kj, readFile(tree.at("luks/u-data.previous")));
  tree.file("luks/u-data", "its own");
  pass();
  EXPECT_EQ("its own"_kj, readFile(tree.at("luks/u-data")));
}

TEST_F(DataVolumesTest, PartitionsWithoutADocumentAreNamed) {
  want("u-data");
  parts.push_back({"u-data", kMiB, kGiB, true});
  parts.push_back({"u-old", 2 * kGiB, kGiB, true});
  data.nameUnused(machine.asReader()).wait(io.waitScope);
  EXPECT_EQ("u-old: /dev/vdb2 is not used, because no document names it; its data stay\n", said);
}

// Catches: a plan that leaves out a partition with data that is used, or cannot be used, an
// existing volume, or what a volume without a document leaves; one that says it of a volume that
// only waited.
TEST_F(DataVolumesTest, PlanSaysWhatBecomesOfEachVolume) {
  auto plan = [&]() {
    return std::string(kj::strArray(data.plan(machine.asReader()).wait(io.waitScope), "|").cStr());
  };
  parts.push_back({"u-data", kMiB, kGiB, true});
  want("u-data").getSize().setGrows(true);
  EXPECT_EQ(
      "uses partition u-data of 1 GiB on /dev/vdb, with its data|"
      "grows partition u-data on /dev/vdb from 1 GiB to 2 GiB",
      plan());
  tree.file("mountinfo", "30 1 254:16 / /var/mnt/data rw - xfs /dev/vdb1 rw\n");
  EXPECT_EQ("grows partition u-data on /dev/vdb from 1 GiB to 2 GiB at the next boot", plan());
  tree.file("mountinfo", "");
  machine.getVolumes()[0].initEncryption();
  EXPECT_EQ("u-data cannot be used: /dev/vdb1 is not encrypted, but its document says so", plan());
  contentOfParts = FileSystem::kLuks;
  EXPECT_EQ(
      "uses partition u-data of 1 GiB on /dev/vdb, with its data|"
      "grows partition u-data on /dev/vdb from 1 GiB to 2 GiB",
      plan());
  contentOfParts = FileSystem::kExt4;
  EXPECT_EQ("u-data cannot be used: /dev/vdb1 holds ext4, not xfs", plan());
  want("e-old", "volume.name == \"btrfs\"").setKind(config::StorageVolume::Kind::EXISTING);
  EXPECT_EQ(
      "e-old waits: its selector selects no volume that can be mounted; see talosctl get "
      "discoveredvolumes",
      plan());
  want("e-old", "volume.name == \"ext4\"").setKind(config::StorageVolume::Kind::EXISTING);
  EXPECT_EQ("mounts /dev/vdb1 at /var/mnt/old", plan());
  machine.initVolumes(0);
  auto status = [&](kj::StringPtr id, kj::StringPtr location, kj::StringPtr target) {
    putRecord<rpc::VolumeStatusSpec>(store, id, [&](auto spec) {
      spec.setLocation(location);
      spec.setTarget(target);
    });
  };
  status("u-a", "/dev/vdb1", "/var/mnt/a");
  status("u-b", "", "/var/mnt/b");
  status("u-c", "", "");
  parts.clear();
  EXPECT_EQ(
      "stops the use of u-a; its data stay on /dev/vdb1|"
      "stops the use of u-b; its data stay on /var/mnt/b",
      plan());
}

// Catches: a volume without a mount point that each plan shows as new, or that grows at a boot
// only.
TEST_F(DataVolumesTest, PlanKnowsARawVolumeThatIsInUse) {
  parts.push_back({"r-data", kMiB, kGiB, true});
  auto volume = want("r-data");
  volume.setKind(config::StorageVolume::Kind::RAW);
  volume.setMountpoint("");
  volume.getSize().setGrows(true);
  putRecord<rpc::VolumeStatusSpec>(store, "r-data", [](auto spec) { spec.setPhase("ready"); });
  auto lines = data.plan(machine.asReader()).wait(io.waitScope);
  EXPECT_EQ("grows partition r-data on /dev/vdb from 1 GiB to 2 GiB", kj::strArray(lines, "|"));
}

}  // namespace talos::machined
