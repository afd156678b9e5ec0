// The choice of the volume EPHEMERAL, and the mounts that are unmounted before it.
#include "machined/disk/volumes/ephemeral-volume.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/io.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "machined/disk/volumes/unmount-volume.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

Volume partition(kj::StringPtr name, kj::Maybe<FileSystem> type,
                 kj::StringPtr partitionName = "EPHEMERAL") {
  Volume v;
  v.device.name = kj::str(name);
  v.device.disk = kj::heapString(name.slice(0, 3));
  v.device.whole = false;
  v.device.partitionName = kj::str(partitionName);
  KJ_IF_MAYBE (t, type) v.content = Superblock{*t, kj::String()};
  return v;
}

template <typename... V>
std::string find(V... list) {
  kj::Vector<Volume> all;
  (all.add(kj::mv(list)), ...);
  std::string text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                 KJ_IF_MAYBE (found, findNamed(all, kEphemeralName, kEphemeralName)) {
                   text = found->device.node().cStr();
                 } else {
                   text = "none";
                 }
               })) {
    text = messageOf(*e).cStr();
  }
  return text;
}

std::string listed(kj::StringPtr mountinfo, MountsOn which) {
  std::string text;
  for (auto& target : mountsOn(mountinfo, "/var", which)) {
    text += (text.empty() ? "" : " ") + std::string(target.cStr());
  }
  return text;
}

constexpr kj::StringPtr kMounts =
    "1 0 7:0 / / ro - squashfs /dev/loop0 ro\n"
    "2 1 254:6 / /var rw,noatime - xfs /dev/vda6 rw\n"
    "3 1 254:5 / /system/state rw - xfs /dev/vda5 rw\n"
    "4 1 0:30 / /opt rw - overlay overlay rw,lowerdir=/opt,upperdir=/var/system/o,workdir=/var/w\n"
    "5 1 254:6 /etc/x /etc/a\\040b ro - xfs /dev/vda6 rw\n"
    "6 2 0:31 / /var/lib/kubelet/p rw shared:2 - tmpfs tmpfs rw\n"
    "7 6 0:32 / /var/lib/kubelet/p/deep rw - overlay overlay rw,upperdir=/var/lib/c/u\n"
    "8 1 0:33 / /variable rw - tmpfs tmpfs rw\n"
    "9 1 0:34 / /mnt rw - overlay overlay rw,lowerdir=/var/a,upperdir=/various/u\n"
    "10 2 0:35 / /var/lib/kubelet/n rw - nfs4 10.0.0.9:/data rw,vers=4.2\n"
    "11 1 0:35 / /srv rw - nfs4 10.0.0.9:/data rw,vers=4.2\n"_kj;

}  // namespace

// Catches: a partition of another name that is used; a choice of the first of two partitions; a
// machine that uses memory instead of an unusable partition.
TEST(EphemeralVolume, PartitionIsFoundByItsNameOrRefused) {
  EXPECT_EQ("none", find());
  EXPECT_EQ("none", find(partition("vda5", FileSystem::kXfs, "STATE"),
                         partition("vda6", FileSystem::kXfs, "EPHEMERAL.unfinished")));
  EXPECT_EQ("/dev/vda6", find(partition("vda6", FileSystem::kXfs)));
  EXPECT_EQ("/dev/vda6", find(partition("vda6", nullptr))) << "an empty one is made";
  EXPECT_THAT(find(partition("vda6", FileSystem::kXfs), partition("vdb1", nullptr)),
              HasSubstr("more than one partition is named EPHEMERAL: /dev/vda6, /dev/vdb1"));
  EXPECT_EQ("/dev/vda6", find(partition("vda6", FileSystem::kLuks))) << "it is opened first";
  EXPECT_THAT(find(partition("vda6", FileSystem::kVfat)), HasSubstr("no file owners"));
  auto silent = partition("vda6", nullptr);
  silent.problem = kj::str("did not respond within 10 s");
  EXPECT_EQ("EPHEMERAL: /dev/vda6 did not respond within 10 s", find(kj::mv(silent)));
}

// Catches: a disk that is never used to its end; an installer that is started at every boot.
TEST(EphemeralVolume, GrowsWhenThereIsRoom) {
  auto ephemeral = partition("vda6", FileSystem::kXfs);
  ephemeral.device.begin = 503u << 20;
  ephemeral.device.bytes = 500u << 20;
  auto grows = [&](uint64_t diskBytes, kj::StringPtr diskName = "vda") {
    Volume disk;
    disk.device.name = kj::str(diskName);
    disk.device.bytes = diskBytes;
    kj::Vector<Volume> all;
    all.add(kj::mv(disk));
    return canGrow(ephemeral, all);
  };
  EXPECT_FALSE(grows(1004u << 20));
  EXPECT_FALSE(grows((1005u << 20) - 512));
  EXPECT_TRUE(grows(1005u << 20));
  EXPECT_FALSE(grows(9000u << 20, "vdb"));
}

// Catches: a mount that keeps the volume busy; a foreign mount that is unmounted; an order in which
// the lower mount comes first.
TEST(UnmountVolume, MountsOfTheVolumeAreListedUpperFirst) {
  EXPECT_EQ("/var/lib/kubelet/n /var/lib/kubelet/p/deep /var/lib/kubelet/p",
            listed(kMounts, MountsOn::kBelow));
  EXPECT_EQ("/var/lib/kubelet/n", listed(kMounts, MountsOn::kServers));
  EXPECT_EQ("/opt", listed(kMounts, MountsOn::kOverlays));
  EXPECT_EQ("/etc/a b", listed(kMounts, MountsOn::kOtherPlaces));
  EXPECT_EQ("", listed("garbage\n1 2 3\n\n- - - - - - - -\n", MountsOn::kBelow));
}

// Catches: a busy volume without a report of its users.
TEST(UnmountVolume, BusyVolumeIsReportedWithItsUsers) {
  TestTree tree;
  auto path = kj::str(tree.root, "/held");
  writeFileAtomically(path, "x"_kj, 0600);
  makeDirectories(kj::str(tree.root, "/proc/17/fd"));
  writeFileAtomically(kj::str(tree.root, "/proc/17/comm"), "holder\n"_kj, 0600);
  ASSERT_EQ(symlink("/proc/self/stat", kj::str(tree.root, "/proc/17/fd/0").cStr()), 0);
  EXPECT_TRUE(userOf(path, kj::str(tree.root, "/proc")) == nullptr);
  ASSERT_EQ(symlink(path.cStr(), kj::str(tree.root, "/proc/17/fd/3").cStr()), 0);
  EXPECT_EQ(KJ_ASSERT_NONNULL(userOf(path, kj::str(tree.root, "/proc"))),
            kj::str("holder (PID 17) has ", path, " open"));
}

}  // namespace talos::machined
