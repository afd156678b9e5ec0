#include "machined/disk/volumes/user-disks.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/testing/test-tree.h"
#include "machined/disk/volumes/test-volumes.h"

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

// Records the disks that it has to divide.
struct DividingInstaller final : Installer {
  std::vector<std::string> divided;
  kj::Promise<void> slots(Fill, Hear, int) override { KJ_UNIMPLEMENTED("not in this test"); }
  kj::Promise<bool> run(Fill fill) override {
    capnp::MallocMessageBuilder message;
    auto request = message.initRoot<rpc::InstallRequest>();
    fill(request);
    divided.push_back(request.asReader().getDivide().getDisk().cStr());
    return true;
  }
};

struct UserDisksTest : testing::Test {
  ~UserDisksTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  TestTree tree;
  TestVolumes volumes;
  DividingInstaller installer;
  std::vector<std::string> said;
  unsigned looks = 0;

  // Mounts a disk whose node appears before this look, or never if 0. The expected error: no volume
  // exists.
  std::string mount(unsigned appears) {
    tree.file("mountinfo", "");
    auto device = tree.at("sdb");
    auto print = [this](kj::StringPtr line) { said.push_back(line.cStr()); };
    UserDisks disks(uv, timer, volumes, installer, print, tree.at("mountinfo"));
    kj::Vector<UserDisk> wanted;
    wanted.add(UserDisk{kj::str(device), {}}).partitions.add(UserDisk::Partition{0, kj::str("/a")});
    auto appear = [&] {
      if (++looks == appears) tree.file("sdb", "");
    };
    appear();
    auto mounting = disks.mount(kj::mv(wanted));
    while (!mounting.poll(io.waitScope)) {
      appear();
      timer.advanceTo(KJ_ASSERT_NONNULL(timer.nextEvent()));
    }
    std::string error;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { mounting.wait(io.waitScope); })) {
      error = messageOf(*e).cStr();
    }
    auto at = error.find(device.cStr());
    return at == std::string::npos ? error : error.replace(at, device.size(), "/dev/sdb");
  }
  auto passed() const { return (timer.now() - kj::origin<kj::TimePoint>()) / kj::MILLISECONDS; }
};

// Catches: a disk on USB that ends the boot because it appears late; a line on the console for a
// disk that is present.
TEST_F(UserDisksTest, OneThatComesLateIsUsed) {
  EXPECT_EQ(mount(1), "machine.disks: /dev/sdb has no partition 1");
  EXPECT_EQ(passed(), 0);
  EXPECT_TRUE(said.empty());
  KJ_SYSCALL(unlink(tree.at("sdb").cStr()));
  looks = 0;
  EXPECT_EQ(mount(3), "machine.disks: /dev/sdb has no partition 1");
  EXPECT_EQ(passed(), 200);
  EXPECT_EQ(said, std::vector<std::string>{kj::str("waiting for ", tree.at("sdb")).cStr()});
  EXPECT_EQ(installer.divided, std::vector<std::string>(2, tree.at("sdb").cStr()));
}

// Catches: a boot that waits for ever.
TEST_F(UserDisksTest, OneThatDoesNotComeEndsTheBoot) {
  EXPECT_EQ(mount(0), "machine.disks: there is no disk /dev/sdb; none has appeared within 60 s");
  EXPECT_EQ(passed(), 60'000);
  EXPECT_TRUE(installer.divided.empty());
}

// Catches: a mount point that the config writes with a final / and the table of mounts without, so
// that its disk is not recognized as mounted, is mounted again by the next brain and never watched.
TEST(UserDisksOf, AMountPointIsAsTheTableOfMountsHasIt) {
  capnp::MallocMessageBuilder message;
  auto disk = message.initRoot<config::Machine>().initDisks(1)[0];
  disk.setDevice("/dev/sdb");
  auto partitions = disk.initPartitions(2);
  partitions[0].setSize("1GB");
  partitions[0].setMountpoint("/var/mnt/a/");
  partitions[1].setMountpoint("/var/mnt/b");
  auto disks = userDisksOf(message.getRoot<config::Machine>().asReader());
  ASSERT_EQ(disks.size(), 1u);
  EXPECT_EQ(disks[0].device, "/dev/sdb");
  ASSERT_EQ(disks[0].partitions.size(), 2u);
  EXPECT_EQ(disks[0].partitions[0].bytes, 1'000'000'000u);
  EXPECT_EQ(disks[0].partitions[0].mountpoint, "/var/mnt/a");
  EXPECT_EQ(disks[0].partitions[1].bytes, 0u);
  EXPECT_EQ(disks[0].partitions[1].mountpoint, "/var/mnt/b");
}

// Catches: a partition of another disk, or one with other or no content, that is mounted
// nevertheless.
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
