// The choice among block devices, and reading from foreign volumes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "machined/disk/devices/block-devices.h"
#include "machined/disk/devices/device-drivers.h"
#include "machined/disk/devices/device-events.h"
#include "machined/disk/devices/storage-server.h"
#include "machined/disk/devices/test-sysfs.h"
#include "machined/disk/volumes/mount-volume.h"
#include "machined/disk/volumes/volume-search.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

// Catches: a partition that is taken for a disk, sizes in blocks, a loop device among the disks.
TEST(BlockDevices, AsTheKernelListsThem) {
  Sysfs sys;
  sys.disk("vdb", "10\n");
  sys.disk("vda", "4096\n");
  sys.disk("loop0", "8\n");
  sys.disk("sr0", "700\n");
  sys.partition("vda", "vda5", "STATE");
  auto found = readBlockDevices(sys.root);
  ASSERT_EQ(4u, found.size());
  EXPECT_EQ("sr0", found[0].name);
  EXPECT_TRUE(found[0].cdrom);
  EXPECT_EQ("vda", found[1].name);
  EXPECT_TRUE(found[1].whole);
  EXPECT_EQ(4096u * 512, found[1].bytes);
  EXPECT_EQ("vda5", found[2].name);
  EXPECT_EQ("vda", found[2].disk);
  EXPECT_EQ("STATE", found[2].partitionName);
  EXPECT_TRUE(found[2].readOnly);
  EXPECT_EQ("vdb", found[3].name);
  EXPECT_EQ(0u, readBlockDevices("/nowhere").size());
}

// Catches: a disk that is taken for the previous disk of its name, also for its partitions.
TEST(BlockDevices, AnotherDiskHasAnotherNumber) {
  Sysfs sys;
  sys.disk("vda", "4096\n");
  sys.disk("vdb", "4096\n");
  sys.partition("vda", "vda1", "STATE");
  sys.file("devices/x/block/vda/diskseq", "17\n");
  auto found = readBlockDevices(sys.root);
  ASSERT_EQ(3u, found.size());
  EXPECT_EQ(17u, found[0].sequence);
  EXPECT_EQ("vda1", found[1].name);
  EXPECT_EQ(17u, found[1].sequence);
  EXPECT_EQ(0u, found[2].sequence);
}

// Catches: a missing mapping; a disk that is taken for a mapping.
TEST(BlockDevices, Mappings) {
  Sysfs sys;
  EXPECT_EQ(0u, readMappings(sys.root).size());
  sys.disk("vda", "4096\n");
  sys.disk("dm-0", "4096\n");
  sys.file2("devices/x/block/dm-0/dm", "name", "vda5-encrypted\n");
  auto found = readMappings(sys.root);
  ASSERT_EQ(1u, found.size());
  EXPECT_EQ("vda5-encrypted", found[0]);
}

// Catches: an open encrypted volume that is not found, or without its partition; another mapping
// that is taken for one.
TEST(BlockDevices, OpenVolumes) {
  Sysfs sys;
  EXPECT_EQ(0u, readOpenVolumes(sys.root).size());
  for (auto name : {"dm-10"_kj, "dm-2"_kj, "dm-1"_kj, "vda"_kj}) sys.disk(name, "4096\n");
  sys.file2("devices/x/block/dm-10/dm", "name", "vda5-encrypted\n");
  sys.file2("devices/x/block/dm-10/dm", "uuid", "CRYPT-LUKS2-0011-vda5-encrypted\n");
  sys.directory("devices/x/block/dm-10/slaves/vda5");
  sys.file2("devices/x/block/dm-2/dm", "name", "vda6-encrypted\n");
  sys.file2("devices/x/block/dm-2/dm", "uuid", "CRYPT-LUKS2-2233-vda6-encrypted\n");
  sys.file2("devices/x/block/dm-1/dm", "name", "flaky\n");
  sys.file2("devices/x/block/dm-1/dm", "uuid", "\n");
  auto found = readOpenVolumes(sys.root);
  ASSERT_EQ(2u, found.size());
  EXPECT_EQ("dm-2", found[0].name);
  EXPECT_EQ("/dev/mapper/vda6-encrypted", found[0].node());
  EXPECT_EQ("", found[0].openedFrom);  // closed at this moment
  EXPECT_EQ("vda5-encrypted", found[1].mapping);
  EXPECT_EQ("vda5", found[1].openedFrom);
  EXPECT_EQ(4096u * 512, found[1].bytes);
  EXPECT_EQ(0u, readBlockDevices(sys.root).size() - 1) << "a mapping among the disks";
}

// Catches: vdaa before vdb, sda10 before sda2.
TEST(BlockDevices, Order) {
  const char* inOrder[] = {"sr0",     "sda",       "sda2",       "sda10",    "sdb", "vda",
                           "nvme0n1", "nvme0n1p2", "nvme0n1p11", "nvme10n1", "sdaa"};
  for (size_t i = 0; i < kj::size(inOrder); ++i) {
    for (size_t j = 0; j < kj::size(inOrder); ++j) {
      EXPECT_EQ(i < j, comesBefore(inOrder[i], inOrder[j])) << inOrder[i] << " " << inOrder[j];
    }
  }
}

// Catches: a disk without its place on the bus, attributes of another device, a CD-ROM drive or a
// partition among the disks, an empty card reader; a serial number with its padding.
TEST(Disks, Facts) {
  Sysfs sys;
  sys.disk("sda", "2000\n");
  sys.file2("devices/x/block/sda/device", "model", "QEMU HARDDISK   \n");
  sys.file2("devices/x/block/sda/device", "vpd_pg80", kj::StringPtr("\0\x80\0\4 S1x", 8));
  sys.file2("devices/x/block/sda/device", "modalias", "scsi:t-0x00\n");
  sys.file2("devices/x/block/sda/device", "wwid", "naa.5000\n");
  sys.file2("devices/x/block/sda/queue", "rotational", "1\n");
  sys.partition("sda", "sda1", "EFI");
  sys.disk("sdb", "0\n");
  sys.disk("sr0", "700\n");
  sys.disk("nvme0n1", "8\n");
  sys.file2("devices/x/block/nvme0n1", "uuid", "u-1\n");
  sys.file2("devices/x/block/nvme0n1/device", "serial", "n\x1b[31m1 \n");
  sys.file2("devices/x/block/nvme0n1/queue", "rotational", "0\n");
  sys.disk("nvme0c0n1", "8\n");
  sys.file2("devices/x/block/nvme0c0n1", "hidden", "1\n");
  sys.disk("mmcblk0", "8\n");
  sys.file2("devices/x/block/mmcblk0/device", "type", "SD\n");
  sys.file2("devices/x/block/mmcblk0/device", "name", "SU08G\n");
  sys.disk("vda", "8\n");
  // A controller's disk has no folder "block" above it.
  sys.file2("devices/p/nvme/nvme1/nvme1n1", "size", "8\n");
  sys.file2("devices/p/nvme/nvme1/nvme1n1", "uevent", "DEVNAME=nvme1n1\nDEVTYPE=disk\n");
  sys.link("class/block/nvme1n1", "../../devices/p/nvme/nvme1/nvme1n1");
  // A disk with two paths.
  sys.file2("devices/virtual/nvme-subsystem/s/nvme3n1", "size", "8\n");
  sys.file2("devices/virtual/nvme-subsystem/s/nvme3n1", "uevent", "DEVNAME=nvme3n1\n");
  for (auto controller : {"nvme10", "nvme9"}) {
    sys.link(kj::str("devices/virtual/nvme-subsystem/s/", controller),
             kj::str("../../../p/nvme/", controller));
  }
  sys.link("class/block/nvme3n1", "../../devices/virtual/nvme-subsystem/s/nvme3n1");
  auto disks = readDisks(sys.root);
  EXPECT_EQ("sda vda nvme0n1 nvme1n1 nvme3n1 mmcblk0",
            kj::strArray(KJ_MAP(d, disks) { return kj::str(d.name); }, " "));
  EXPECT_EQ(2000u * 512, disks[0].bytes);
  EXPECT_EQ("QEMU HARDDISK", disks[0].model);
  EXPECT_EQ("scsi:t-0x00", disks[0].modalias);
  EXPECT_EQ("naa.5000", disks[0].wwid);
  EXPECT_EQ("", disks[0].uuid);
  EXPECT_EQ("S1x", disks[0].serial);
  EXPECT_EQ("/x/", disks[0].busPath);
  EXPECT_EQ("/p/nvme/nvme1/nvme1n1", disks[3].busPath);
  EXPECT_EQ("/p/nvme/nvme9/nvme3n1", disks[4].busPath);
  EXPECT_EQ(rpc::Disk::Type::HDD, disks[0].type);
  EXPECT_EQ(rpc::Disk::Type::UNKNOWN, disks[1].type);
  EXPECT_EQ("u-1", disks[2].uuid);
  EXPECT_EQ("n?[31m1", disks[2].serial);
  EXPECT_EQ(rpc::Disk::Type::NVME, disks[2].type);
  EXPECT_EQ(rpc::Disk::Type::SD, disks[5].type);
  EXPECT_EQ("SU08G", disks[5].ownName);
  EXPECT_EQ("", disks[5].model);
  EXPECT_EQ("", disks[0].ownName);
}

// Catches: a read beyond the page's end; the page's head taken for the number.
TEST(Disks, SerialNumberPage) {
  auto page = [](std::initializer_list<int> head, kj::StringPtr text) {
    kj::Vector<char> bytes;
    for (int b : head) bytes.add(static_cast<char>(b));
    bytes.addAll(text);
    return serialOfPage(bytes);
  };
  EXPECT_EQ("QM00001", page({0, 0x80, 0, 10}, " QM00001  rest"));
  EXPECT_EQ("QM", page({0, 0x80, 0xff, 0xff}, "QM"));
  EXPECT_EQ("QM?11", page({0, 0x80, 0, 5},
                          "QM\xe9"
                          "11"))
      << "where char has no sign, too";
  EXPECT_EQ("", page({0, 0x80, 0}, ""));
  EXPECT_EQ("", page({0, 0x83, 0, 2}, "QM"));
  EXPECT_EQ("", page({0, 0x80, 0, 3}, "   "));
}

Volume volume(kj::StringPtr name, FileSystem type, kj::StringPtr label) {
  Volume v;
  v.device.name = kj::str(name);
  v.device.disk = kj::heapString(name.slice(0, 3));
  v.content = Superblock{type, kj::str(label)};
  return v;
}

std::string chosen(kj::Maybe<const Volume&> volume) {
  KJ_IF_MAYBE (v, volume) return v->device.name.cStr();
  return "none";
}

// Catches: a FAT label that is missed because of its capitals; a second volume that is not
// reported; the partition of a hybrid disc that is reported as a second volume.
TEST(ChooseVolume, ByLabel) {
  Volume all[] = {
      volume("sda", FileSystem::kIso9660, "cidata"), volume("sda1", FileSystem::kIso9660, "cidata"),
      volume("vda1", FileSystem::kVfat, "CIDATA"), volume("vdb1", FileSystem::kLuks, "metal-iso")};
  kj::Vector<kj::String> others;
  EXPECT_EQ("sda", chosen(chooseVolume(all, "cidata", others)));
  EXPECT_EQ("/dev/vda1", kj::strArray(others, " "));
  EXPECT_EQ("none", chosen(chooseVolume(all, "metal-iso", others)));
  EXPECT_EQ("none", chosen(chooseVolume(all, "", others)));
}

// Catches: a file of a disk that is not a disc; a disc without the file, or a damaged disc, that
// ends the search; a damage that is forgotten, as if no disc could have the file.
TEST(FirstDisc, ByFile) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  Volume all[] = {volume("vda1", FileSystem::kVfat, ""), volume("sr0", FileSystem::kIso9660, "x"),
                  volume("sr1", FileSystem::kUdf, ""), volume("sr2", FileSystem::kUdf, "")};
  std::string tried;
  ReadVolume read = [&](const Volume& v) -> kj::Promise<VolumeFiles> {
    auto name = v.device.name.asPtr();
    tried += kj::str(name, " ").cStr();
    if (name == "sr1") return error(ErrorKind::kUnavailable, "cannot mount /dev/sr1 (udf)");
    VolumeFiles result{kj::str(v.device.node()), kj::heapArray<kj::Maybe<kj::Array<char>>>(1)};
    if (name != "sr0") result.files[0] = kj::heapArray("x"_kj.asArray());
    return kj::mv(result);
  };
  kj::Maybe<kj::Exception> unreadable;
  auto found = firstDisc(all, read, unreadable).wait(scope);
  EXPECT_EQ("/dev/sr2", KJ_ASSERT_NONNULL(found).device);
  EXPECT_EQ("sr0 sr1 sr2 ", tried);
  found = firstDisc(kj::arrayPtr(all, 3), read, unreadable).wait(scope);
  EXPECT_TRUE(found == nullptr);
  EXPECT_EQ("cannot mount /dev/sr1 (udf)", messageOf(KJ_ASSERT_NONNULL(unreadable)));
  found = firstDisc(kj::arrayPtr(all, 2), read, unreadable).wait(scope);
  EXPECT_TRUE(found == nullptr && unreadable == nullptr);
}

// Catches: a wake-up for each event of the network, and none for a disc.
TEST(DeviceEvents, OnlyDisksConcernUs) {
  auto event = [](kj::StringPtr subsystem) {
    const char zero = 0;
    return kj::heapArray(
        kj::str("add@/devices/x", zero, "ACTION=add", zero, subsystem, zero, "SEQNUM=1").asArray());
  };
  EXPECT_TRUE(concernsDisks(event("SUBSYSTEM=block")));
  EXPECT_TRUE(concernsDisks(event("SUBSYSTEM=scsi")));
  EXPECT_FALSE(concernsDisks(event("SUBSYSTEM=net")));
  EXPECT_FALSE(concernsDisks("SUBSYSTEM=blockade"_kj.asArray()));
  EXPECT_FALSE(concernsDisks(nullptr));
}

// Catches: a disk on a controller that finds it late, and whose driver is not loaded; a module for
// a device that is removed; a truncated text.
TEST(HotplugDrivers, TheModaliasOfNewDevices) {
  const char zero = 0;
  auto of = [&](kj::StringPtr action, kj::StringPtr field, kj::StringPtr end = "SEQNUM=1") {
    auto text = kj::str("add@/devices/x", zero, action, zero, field, zero, end, zero);
    return modaliasOfNewDevice(text)
        .map([](kj::StringPtr t) { return kj::str(t); })
        .orDefault(kj::str("none"));
  };
  EXPECT_EQ(of("ACTION=add", "MODALIAS=scsi:t-0x00"), "scsi:t-0x00");
  EXPECT_EQ(of("MODALIAS=usb:v0525pA4A2", "ACTION=add"), "usb:v0525pA4A2") << "in any order";
  EXPECT_EQ(of("ACTION=remove", "MODALIAS=scsi:t-0x00"), "none");
  EXPECT_EQ(of("ACTION=add", "SUBSYSTEM=block"), "none");
  EXPECT_EQ(of("ACTION=add", "MODALIAS="), "none");
  EXPECT_EQ(of("ACTION=add", "MODALIAS=cpu:type:x86,ven0000fam0006"), "none");
  EXPECT_EQ(of("ACTION=add", kj::str("MODALIAS=", kj::repeat('x', 2000))), "none");
  EXPECT_TRUE(modaliasOfNewDevice("ACTION=add"_kj.asArray()) == nullptr);
  EXPECT_TRUE(modaliasOfNewDevice(nullptr) == nullptr);
}

// Catches: another mount point whose name begins the same, which would leave STATE unmounted.
TEST(MountPoint, Exactly) {
  auto table = "22 1 0:21 / / rw - squashfs a b\n31 22 0:5 / /system/state2 rw - xfs a b\n"_kj;
  EXPECT_FALSE(isMountPoint("/system/state", table));
  EXPECT_FALSE(isMountPoint("/system/state", "31 22 0:5 /system/state /x rw"));
  EXPECT_TRUE(isMountPoint(
      "/system/state", kj::str(table, "40 22 8:1 / /system/state rw,noatime - xfs /dev/vda rw")));
  EXPECT_FALSE(isMountPoint("/system/state", "x\n\n a"));
  auto stacked = kj::str(table, "40 22 8:1 / /var rw,noatime shared:1 - xfs /dev/vda6 rw\n",
                         "41 40 252:0 / /var rw - xfs /dev/mapper/vda6-encrypted rw\n");
  EXPECT_EQ(KJ_ASSERT_NONNULL(mountSource("/var", stacked)), "/dev/mapper/vda6-encrypted");
  EXPECT_EQ(KJ_ASSERT_NONNULL(mountSource("/system/state2", stacked)), "a");
  EXPECT_TRUE(mountSource("/system/state", stacked) == nullptr);
  // A blank is escaped as the kernel writes it.
  auto blank = "50 22 8:2 / /var/a\\040b rw - xfs /dev/disk\\0401 rw\n"_kj;
  EXPECT_EQ(KJ_ASSERT_NONNULL(mountSource("/var/a b", blank)), "/dev/disk 1");
}

// Catches: a link on a foreign volume that leads to the node's own files; a FIFO that blocks for
// ever; a file that fills the memory.
TEST(ReadFileAt, OnlyRegularFiles) {
  TestTree tree;
  tree.file("config.yaml", "machine: {}");
  tree.link("link", "config.yaml");
  tree.directory("folder");
  ASSERT_EQ(0, mkfifo(tree.at("fifo").cStr(), 0600));
  kj::AutoCloseFd folder(open(tree.root.cStr(), O_PATH | O_DIRECTORY));
  EXPECT_EQ("machine: {}"_kj, kj::str(KJ_ASSERT_NONNULL(readFileAt(folder, "config.yaml", 100))));
  EXPECT_TRUE(readFileAt(folder, "absent", 100) == nullptr);
  EXPECT_EQ(11u, KJ_ASSERT_NONNULL(readFileAt(folder, "config.yaml", 11)).size());
  for (auto name : {"link"_kj, "folder"_kj, "fifo"_kj}) {
    EXPECT_ANY_THROW(readFileAt(folder, name, 100)) << name.cStr();
  }
  EXPECT_ANY_THROW(readFileAt(folder, "config.yaml", 10));
}

// Catches: a refusal without the kernel's reason.
TEST(OpenFileSystem, SaysWhy) {
  try {
    openFileSystem("/dev/absent", FileSystem::kExt4, MountAccess::kReadOnly);
    FAIL();
  } catch (const kj::Exception& e) {
    EXPECT_THAT(messageOf(e).cStr(), HasSubstr("cannot mount /dev/absent (ext4): "));
  }
}

// Catches: readers that occupy the boot's threads with a disk that does not answer; a reader that
// takes all threads from the others.
TEST(StorageServer, ADiskThatHangsStopsNeitherTheBootNorOthers) {
  Sysfs sys;
  sys.disk("vda", "4096\n");
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  UvLoop uv(io.unixEventPort, timer);
  auto size = kj::str(sys.root, "/class/block/vda/size");
  KJ_SYSCALL(unlink(size.cStr()));
  KJ_SYSCALL(mkfifo(size.cStr(), 0600));  // a read waits for a writer
  ReadPool pool(timer, {.threads = 2, .mostThreads = 2}, [](kj::StringPtr) {});
  MetaPartition meta(timer, sys.root);
  NewRecoveryKey recovery = [](kj::String, unsigned) -> kj::Promise<kj::String> {
    return kj::str();
  };
  WipeDevices wipe = [](kj::Vector<kj::String>, bool,
                        kj::Function<void(kj::StringPtr)>) -> kj::Promise<void> {
    return kj::READY_NOW;
  };
  auto node = kj::refcounted<NodeCalls>();
  auto greedy = serveStorage(pool, meta, recovery.reference(), wipe.reference(),
                             kj::refcounted<ClientCalls>(kj::addRef(*node)), sys.root);
  auto other = serveStorage(pool, meta, recovery.reference(), wipe.reference(),
                            kj::refcounted<ClientCalls>(kj::addRef(*node)), sys.root);
  kj::Vector<kj::Promise<void>> readers;
  for (unsigned i = 0; i < limitOf(CallKind::kRead).perClient; ++i) {
    readers.add(greedy.disksRequest().send().ignoreResult());
    EXPECT_FALSE(readers.back().poll(io.waitScope));
  }
  EXPECT_EQ(
      42, timer.timeoutAfter(5 * kj::SECONDS, uv.blocking([]() { return 42; })).wait(io.waitScope));
  auto refused = greedy.disksRequest().send().ignoreResult();
  auto failure = kj::runCatchingExceptions([&]() { refused.wait(io.waitScope); });
  EXPECT_EQ(ErrorKind::kResourceExhausted, kindOf(KJ_ASSERT_NONNULL(failure)));
  EXPECT_FALSE(other.disksRequest().send().ignoreResult().poll(io.waitScope)) << "was refused";
}

}  // namespace
}  // namespace talos::machined
