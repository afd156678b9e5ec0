#include "machined/upgrade/live/live-plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "machined/upgrade/live/entered-system.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr kj::StringPtr kTable =
    "100 1 7:0 / / ro,relatime shared:1 - squashfs /dev/loop0 ro\n"
    "101 100 0:5 / /dev rw shared:2 - devtmpfs devtmpfs rw\n"
    "102 101 0:6 / /dev/pts rw shared:3 - devpts devpts rw\n"
    "103 100 0:7 / /system rw shared:4 master:9 - tmpfs tmpfs rw\n"
    "104 100 0:8 / /opt rw shared:5 - overlay overlay "
    "rw,lowerdir=/opt,upperdir=/var/o/u,workdir=/var/o/w\n"
    "105 100 0:9 / /etc ro shared:6 - overlay overlay ro,lowerdir=/system/run/etc-files:/etc\n"
    "106 100 0:10 / /a\\040b rw - tmpfs tmpfs rw\n"
    "107 100 0:11 / /root rw - tmpfs tmpfs rw\n"
    "108 1 0:12 / /other rw - tmpfs tmpfs rw\n"
    "torn 100 line\n"_kj;

std::vector<std::string> targetsOf(kj::ArrayPtr<const TopMount> mounts) {
  std::vector<std::string> targets;
  for (auto& mount : mounts) targets.push_back(mount.target.cStr());
  return targets;
}

std::vector<std::string> layersAt(kj::ArrayPtr<const TopMount> mounts, kj::StringPtr target) {
  std::vector<std::string> layers;
  for (auto& mount : mounts) {
    if (mount.target != target) continue;
    for (auto layer : mount.layersOfImage(mounts)) layers.push_back(layer.cStr());
  }
  return layers;
}

std::vector<std::string> differing(kj::Array<FixedPart> running, kj::Array<FixedPart> other) {
  std::vector<std::string> names;
  for (auto& name : differingParts(running, other)) names.push_back(name.cStr());
  return names;
}

FixedPart part(kj::StringPtr name, kj::StringPtr digest) {
  return FixedPart{kj::str(name), kj::str(digest)};
}

}  // namespace

// Catches: a mount below another one that is copied twice; a mount of the old root that the new
// root lacks; a copy of the new root in itself; a line of the kernel that ends an upgrade.
TEST(LivePlan, MountsOfTheRootAreThoseDirectlyOnIt) {
  auto mounts = topMounts(kTable, 100, "/root");
  EXPECT_THAT(targetsOf(mounts), ElementsAre("/dev", "/system", "/opt", "/etc", "/a b"));
  EXPECT_THAT(targetsOf(topMounts(kTable, 7, "/root")), IsEmpty());
}

// Catches: an overlay that keeps showing files of the old image, unnoticed; a layer in memory that
// is looked for in the image.
TEST(LivePlan, LayersOfAnOverlayAreThoseOfTheImage) {
  auto mounts = topMounts(kTable, 100, "/root");
  EXPECT_THAT(layersAt(mounts, "/opt"), ElementsAre("/opt"));
  EXPECT_THAT(layersAt(mounts, "/etc"), ElementsAre("/etc"));
  EXPECT_THAT(layersAt(mounts, "/dev"), IsEmpty());
}

// Catches: a system with another process 1 or other files in a layer that takes over all the same;
// a part that both lack, and that counts as the same.
TEST(LivePlan, EachPartThatDiffersIsNamed) {
  auto running = [] {
    return kj::arr(part("the kernel", "1"), part("process 1", "2"), part("the files of /opt", "3"));
  };
  EXPECT_THAT(differing(running(), running()), IsEmpty());
  EXPECT_THAT(differing(running(), kj::arr(part("the kernel", "9"), part("process 1", "2"),
                                           part("the files of /opt", ""))),
              ElementsAre("the kernel", "the files of /opt"));
  EXPECT_THAT(differing(kj::arr(part("process 1", "")), kj::arr(part("process 1", ""))),
              ElementsAre("process 1"));
  auto both = kj::arr(kj::str("the kernel"), kj::str("the files of /opt"));
  EXPECT_EQ(needsReboot(both),
            "it cannot take over without a reboot, because these differ: the kernel, the files of "
            "/opt; upgrade without --live");
}

// Catches: a slot that is overwritten for a system that can only be started by a reboot; an image
// of an earlier release that is refused.
TEST(LivePlan, AnImageThatStatesAnotherProcess1IsKnownBefore) {
  auto running = kj::arr(part("process 1", "ab"), part("the files of /opt", "cd"));
  auto names = [&](kj::StringPtr stated) {
    return kj::strArray(partsStatedOtherwise(running, stated), ", ");
  };
  EXPECT_EQ(names("machine\nmachine.token\n"), "");
  EXPECT_EQ(names("machine\n//process-1=ab\n"), "");
  EXPECT_EQ(names("machine\n//process-1=abc\n"), "process 1");
  EXPECT_EQ(names("//process-1=a\n"), "process 1");
}

// Catches: a program that keeps running although one of its libraries is another in the new system;
// a file of a container that is compared with the root.
TEST(LivePlan, MappedFilesAreThoseOfTheImage) {
  constexpr kj::StringPtr kMaps =
      "00055d0-055d1 r--p 00000000 07:03 101                        /usr/bin/apid\n"
      "55d1-55d2 r-xp 00001000 07:03 101                        /usr/bin/apid\n"
      "55d2-55d3 rw-p 00000000 00:00 0                          [heap]\n"
      "7f00-7f01 r-xp 00000000 07:03 102                        /usr/lib/a b.so\n"
      "7f01-7f02 r-xp 00000000 07:04 103                        /usr/lib/other.so\n"
      "7f02-7f03 rw-p 00000000 00:00 0 \n"_kj;
  std::vector<std::string> found;
  for (auto& file : mappedFiles(kMaps, "07:03")) {
    found.push_back(kj::str(file.range, " ", file.path).cStr());
  }
  EXPECT_THAT(found, ElementsAre("55d0-55d1 /usr/bin/apid", "7f00-7f01 /usr/lib/a b.so"));
}

// Catches: a brain that dies between the note and the change of the root, after which the next
// takes the wrong slot for the running one; a note of an earlier brain that is not valid.
TEST(LivePlan, TheRunningSystemIsTheOneWithTheRoot) {
  EnteredSystem first{install::Slot::kB, 1793}, next{install::Slot::kA, 1794, 99, 3};
  auto text = encodeEntered(kj::arr(first, next));
  EXPECT_EQ(text, "B 1793 0 0\nA 1794 99 3\n");
  auto systems = decodeEntered(kj::str(text, "C 1 1 1\nA x 0 0\nA 1\n"));
  EXPECT_EQ(systems.size(), 2u);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(enteredAt(systems, 1793)).slot == install::Slot::kB);
  EXPECT_EQ(KJ_ASSERT_NONNULL(enteredAt(systems, 1794)).trialEnds, 99);
  EXPECT_TRUE(enteredAt(systems, 5) == nullptr);
}

// Catches: a new system without an API that is noticed only when all else is replaced.
TEST(LivePlan, TheApiIsReplacedFirstAndTheLogsLast) {
  kj::Vector<kj::String> services;
  for (auto id : {"dbus-daemon", "etcd", "kubed", "logd", "apid", "networkd", "trustd"}) {
    services.add(kj::str(id));
  }
  sortReplacements(services);
  EXPECT_EQ(kj::strArray(services, " "), "apid trustd networkd kubed dbus-daemon etcd logd");
}

}  // namespace talos::machined
