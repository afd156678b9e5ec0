// The resources about disks and mounts, with models of both.
#include "machined/disk/volumes/disk-controllers.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <string>

#include "common/testing/test-tree.h"
#include "common/testing/virtual-time.h"
#include "machined/resources/controller-outputs.h"
#include "machined/resources/test-store.h"
#include "rpc/inventory-resources.capnp.h"

namespace talos::machined {
namespace {

BlockDevice deviceOf(kj::StringPtr name, kj::StringPtr disk, kj::StringPtr label) {
  BlockDevice device;
  device.name = kj::str(name);
  device.disk = kj::str(disk);
  device.partitionName = kj::str(label);
  device.whole = name == disk;
  device.cdrom = name.startsWith("sr");
  device.bytes = 105'000'000;
  return device;
}

struct DiskControllersTest : public StoreTest {
  ~DiskControllersTest() noexcept override {}
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ControllerRuntime runtime{store, [](kj::StringPtr) {}, timer, clock, [] { return 0.5; }};
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> change;
  unsigned looks = 0;
  bool second = false;
  std::string problem = "cannot be opened";
  std::string table;

  kj::Promise<void> nextChange() {
    auto paf = kj::newPromiseAndFulfiller<void>();
    change = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  }
  void changed() {
    KJ_ASSERT_NONNULL(change)->fulfill();
    advance(timer, scope, 2 * kj::SECONDS);
  }
  void stage(kj::StringPtr name) {
    Outputs<rpc::MachineStatusSpec> outputs("test");
    outputs.add("machine").setStage(name);
    outputs.apply(store);
    scope.poll();
  }
  kj::Promise<kj::Vector<Volume>> volumes() {
    ++looks;
    kj::Vector<Volume> found;
    found.add(
        Volume{deviceOf("sr0", "sr0", ""), Superblock{FileSystem::kIso9660, kj::str("TALOS")}});
    found.add(Volume{deviceOf("vda", "vda", ""), nullptr});
    found.add(Volume{deviceOf("vda5", "vda", "STATE"), Superblock{FileSystem::kLuks, kj::str()}});
    if (second) {
      auto open = deviceOf("dm-0", "dm-0", "");
      open.mapping = kj::str("vda5-encrypted");
      open.openedFrom = kj::str("vda5");
      found.add(Volume{kj::mv(open), Superblock{FileSystem::kXfs, kj::str("STATE")}});
      found.add(Volume{deviceOf("vdb", "vdb", ""), nullptr, kj::str(problem.c_str())});
    }
    return kj::mv(found);
  }
  std::string shownVolumes() {
    kj::Vector<kj::String> rows;
    for (auto v : store.list<rpc::DiscoveredVolumeSpec>()) {
      rows.add(kj::str(v.id(), " ", v.getType(), " ", v.getPrettySize(), " ", v.getName(), " ",
                       v.getLabel(), " ", v.getPartitionLabel(), " ", v.getParent(), v.getProblem(),
                       v.getDevicePath().startsWith("/dev/mapper/") ? v.getDevicePath() : ""_kj));
    }
    return kj::strArray(rows, "|").cStr();
  }
  std::string shownMounts() {
    kj::Vector<kj::String> rows;
    for (auto m : store.list<rpc::MountStatusSpec>()) {
      rows.add(kj::str(m.id(), " ", m.getSource(), " ", m.getTarget(), " ", m.getFilesystemType(),
                       " ", m.getOptions().size(), m.getEncrypted() ? " encrypted" : ""));
    }
    return kj::strArray(rows, "|").cStr();
  }
};

}  // namespace

// Catches: a boot that waits for disks; a later disk that is not shown; a disk that is looked at
// repeatedly, or for each event of a burst.
TEST_F(DiskControllersTest, VolumesAreLookedAtWhenSomethingChanges) {
  runtime.add(kj::heap<DiscoveredVolumesController>(
      timer, [this]() { return volumes(); }, [this]() { return nextChange(); }));
  scope.poll();
  stage("booting");
  EXPECT_EQ(looks, 0u);
  stage("running");
  EXPECT_EQ(shownVolumes(),
            "sr0 cdrom 105 MB iso9660 TALOS  |vda disk 105 MB gpt   |"
            "vda5 partition 105 MB luks  STATE vda");
  advance(timer, scope, 10 * kj::MINUTES);
  EXPECT_EQ(looks, 1u);
  second = true;
  changed();
  EXPECT_EQ(looks, 2u);
  EXPECT_NE(shownVolumes().find("vdb disk 105 MB    cannot be opened"), std::string::npos)
      << shownVolumes();
  EXPECT_NE(shownVolumes().find("dm-0 disk 105 MB xfs STATE  vda5/dev/mapper/vda5-encrypted"),
            std::string::npos)
      << shownVolumes();
  second = false;
  changed();
  EXPECT_EQ(shownVolumes().find("vdb"), std::string::npos) << "gone, and still shown";
}

// Catches: a device that "did not respond" for days, although it was slow once; a silent device
// that is read every second; a device that cannot be opened and is read again.
TEST_F(DiskControllersTest, ASilentVolumeIsLookedAtAgain) {
  runtime.add(kj::heap<DiscoveredVolumesController>(
      timer, [this]() { return volumes(); }, [this]() { return nextChange(); }));
  second = true;
  stage("running");
  advance(timer, scope, 10 * kj::MINUTES);
  EXPECT_EQ(looks, 1u);
  problem = "did not respond within 10 s";
  changed();
  EXPECT_EQ(looks, 2u);
  advance(timer, scope, 28 * kj::SECONDS);
  EXPECT_EQ(looks, 2u);
  advance(timer, scope, 4 * kj::SECONDS);
  EXPECT_EQ(looks, 3u);
  EXPECT_NE(shownVolumes().find("did not respond within"), std::string::npos);
  problem = "";
  advance(timer, scope, 50 * kj::SECONDS);
  EXPECT_EQ(looks, 3u);
  advance(timer, scope, 15 * kj::SECONDS);
  EXPECT_EQ(looks, 4u);
  EXPECT_EQ(shownVolumes().find("did not respond"), std::string::npos) << shownVolumes();
  advance(timer, scope, 1 * kj::HOURS);
  EXPECT_EQ(looks, 4u);
}

// Catches: a disk that was removed and is still shown; a node without a system that shows its disk.
TEST_F(DiskControllersTest, DisksAreThoseOfTheMachine) {
  bool installed = true;
  runtime.add(kj::heap<DisksController>(
      timer,
      [&]() -> kj::Promise<DisksController::Disks> {
        ++looks;
        DisksController::Disks found;
        found.facts.add(DiskFacts{.name = kj::str("vda"), .bytes = 10'000'000'000});
        if (second) found.facts.add(DiskFacts{.name = kj::str("nvme0n1"), .readOnly = true});
        if (installed) found.system = kj::str("vda");
        return kj::mv(found);
      },
      [this]() { return nextChange(); }));
  auto shown = [this]() {
    std::string text;
    for (auto d : store.list<rpc::DiskSpec>()) {
      text += kj::str(d.id(), " ", d.getPrettySize(), " ", d.getTransport(), " ", d.getDevPath(),
                      d.getReadOnly() ? " read-only" : "", "|")
                  .cStr();
    }
    for (auto d : store.list<rpc::SystemDiskSpec>()) {
      text += kj::str(d.id(), " ", d.getDiskId(), " ", d.getDevPath()).cStr();
    }
    return text;
  };
  stage("booting");
  EXPECT_EQ(looks, 0u);
  second = true;
  stage("running");
  EXPECT_EQ(shown(),
            "nvme0n1 0 B nvme /dev/nvme0n1 read-only|vda 10 GB virtio /dev/vda|"
            "system-disk vda /dev/vda");
  second = installed = false;
  changed();
  EXPECT_EQ(shown(), "vda 10 GB virtio /dev/vda|");
}

// Catches: a mount without the label of its volume, or not shown as encrypted; a removed mount that
// is still shown.
TEST_F(DiskControllersTest, MountsAreThoseOfTheTable) {
  table =
      "1 0 7:0 / / ro - squashfs /dev/loop0 ro\n"
      "2 1 254:6 / /var rw,noatime - xfs /dev/mapper/vda6-encrypted rw\n";
  runtime.add(kj::heap<MountStatusController>(
      timer, [this]() -> kj::Promise<kj::String> { return kj::str(table.c_str()); },
      [this]() { return nextChange(); }));
  scope.poll();
  EXPECT_EQ(shownMounts(),
            "loop0 /dev/loop0 / squashfs 1|"
            "vda6-encrypted /dev/mapper/vda6-encrypted /var xfs 2");
  Outputs<rpc::VolumeStatusSpec> outputs("test");
  auto volume = outputs.add("EPHEMERAL");
  volume.setMountLocation("/dev/mapper/vda6-encrypted");
  volume.setEncryptionProvider("luks2");
  outputs.apply(store);
  scope.poll();
  EXPECT_EQ(shownMounts(),
            "EPHEMERAL /dev/mapper/vda6-encrypted /var xfs 2 encrypted|"
            "loop0 /dev/loop0 / squashfs 1");
  table = "1 0 7:0 / / ro - squashfs /dev/loop0 ro\n";
  changed();
  EXPECT_EQ(shownMounts(), "loop0 /dev/loop0 / squashfs 1");
}

// Catches: volumes that are made on a machine whose boot or installation has failed, or while it
// boots or shuts down.
TEST_F(DiskControllersTest, VolumesAreMadeOnlyWhileTheNodeRuns) {
  unsigned passes = 0;
  runtime.add(kj::heap<VolumeController>(
      timer,
      [&passes](Store&) -> kj::Promise<void> {
        ++passes;
        return kj::READY_NOW;
      },
      [this]() { return nextChange(); }));
  for (auto name : {"booting"_kj, "failed"_kj, "shuttingDown"_kj}) {
    stage(name);
    EXPECT_EQ(passes, 0u) << name.cStr();
  }
  stage("running");
  EXPECT_EQ(passes, 1u);
  Outputs<rpc::UpgradeStatusSpec> outputs("test");
  outputs.add("node").setStage("done");
  outputs.apply(store);
  scope.poll();
  EXPECT_EQ(passes, 2u) << "the trial of the system is over";
}

// Catches: the amounts of swap that are those of the last boot.
TEST_F(DiskControllersTest, UsedSwapIsReadAgain) {
  TestTree tree;
  tree.file("swaps", "/dev/vdb1 partition 1048576 0 -2\n");
  runtime.add(kj::heap<SwapStatusController>(timer, tree.at("swaps")));
  scope.poll();
  auto used = [this]() {
    return KJ_ASSERT_NONNULL(store.tryGet<rpc::SwapStatusSpec>("vdb1")).getUsed();
  };
  EXPECT_EQ(used(), 0u);
  tree.file("swaps", "/dev/vdb1 partition 1048576 1024 -2\n");
  advance(timer, scope, 20 * kj::SECONDS);
  EXPECT_EQ(used(), 1u << 20);
}

// Catches: a missed change of the table of mounts that the kernel reports.
TEST(MountEventsTest, TheKernelReportsMounts) {
  ASSERT_EQ(unshare(CLONE_NEWNS), 0) << "needs root";
  ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  MountEvents events(io.unixEventPort);
  auto isNotified = [&](kj::Duration timeout) {
    bool notified = false;
    events.next()
        .then([&]() { notified = true; })
        .exclusiveJoin(timer.afterDelay(timeout))
        .wait(io.waitScope);
    return notified;
  };
  auto isQuiet = [&]() {
    for (int i = 0; i < 20; ++i) {
      if (!isNotified(20 * kj::MILLISECONDS)) return true;
    }
    return false;
  };
  EXPECT_TRUE(isQuiet());
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(mount("none", "/mnt", "tmpfs", 0, nullptr), 0);
    EXPECT_TRUE(isNotified(10 * kj::SECONDS)) << i;
    EXPECT_TRUE(isQuiet()) << "tells of a change that there is not";
    ASSERT_EQ(umount("/mnt"), 0);
    EXPECT_TRUE(isNotified(10 * kj::SECONDS)) << i;
  }
}

}  // namespace talos::machined
