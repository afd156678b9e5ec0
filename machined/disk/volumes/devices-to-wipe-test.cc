#include "machined/disk/volumes/devices-to-wipe.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

struct DevicesToWipe : testing::Test {
  ~DevicesToWipe() noexcept override {}
  UsesOfDevices uses;

  DevicesToWipe() {
    disk("vda");
    const char* labels[] = {"EFI", "BIOS", "BOOT", "META", "STATE", "EPHEMERAL", "u-old"};
    for (unsigned i = 0; i < 7; ++i) partition("vda", i + 1, labels[i]);
    disk("vdb");
    partition("vdb", 1, "u-data");
    partition("vdb", 2, "");
    disk("vdc");
    disk("sr0").cdrom = true;
    disk("vdd").readOnly = true;
    uses.state = kj::str("/dev/vda5");
  }
  BlockDevice& disk(kj::StringPtr name) {
    auto& device = uses.devices.add();
    device.name = kj::str(name);
    device.disk = kj::str(name);
    return device;
  }
  BlockDevice& partition(kj::StringPtr of, unsigned number, kj::StringPtr label) {
    auto& device = disk(kj::str(of, number));
    device.disk = kj::str(of);
    device.whole = false;
    device.partitionName = kj::str(label);
    return device;
  }
  BlockDevice& at(kj::StringPtr name) {
    for (auto& device : uses.devices) {
      if (device.name == name) return device;
    }
    KJ_FAIL_REQUIRE("no such device", name);
  }
  // Returns the paths, or the reason.
  std::string asked(std::initializer_list<kj::StringPtr> names) {
    kj::Vector<kj::String> list;
    for (auto name : names) list.add(kj::str(name));
    kj::String text;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&] { text = kj::strArray(devicesToWipe(list, uses), " "); })) {
      return messageOf(*e).cStr();
    }
    return text.cStr();
  }
};

}  // namespace

TEST_F(DevicesToWipe, ThoseThatNothingUses) {
  EXPECT_EQ("/dev/vdc /dev/vdb2 /dev/vda7", asked({"vdc", "vdb2", "vda7"}));
  EXPECT_EQ("/dev/vdb", asked({"vdb"}));
}

// Catches: a device that was not named, or one that cannot be wiped, among others that can.
TEST_F(DevicesToWipe, WhatIsNamedIsChecked) {
  EXPECT_EQ("no device is named", asked({}));
  EXPECT_EQ("blockdevice \"vdx\" not found", asked({"vdc", "vdx"}));
  EXPECT_EQ("blockdevice \"/dev/vdc\" not found", asked({"/dev/vdc"}));
  EXPECT_EQ("blockdevice \"\" not found", asked({""}));
  EXPECT_EQ("blockdevice \"vdc\" is named twice", asked({"vdc", "vdc"}));
  EXPECT_EQ("blockdevice \"vdb1\" is named twice", asked({"vdb1", "vdb"}));
  EXPECT_EQ("blockdevice \"sr0\" is a CD-ROM drive; nothing was wiped", asked({"vdc", "sr0"}));
  EXPECT_EQ("blockdevice \"vdd\" is read-only; nothing was wiped", asked({"vdd"}));
}

// Catches: a node without its system; a partition of the system that is not mounted, and is erased.
TEST_F(DevicesToWipe, TheDiskOfTheSystemStays) {
  EXPECT_EQ("blockdevice \"vda\" is the disk of the system; nothing was wiped", asked({"vda"}));
  EXPECT_EQ("blockdevice \"vda3\" is the partition BOOT of the system; nothing was wiped",
            asked({"vda3"}));
  partition("vdc", 1, "STATE");  // of another installation
  EXPECT_EQ("/dev/vdc", asked({"vdc"}));
  uses.state = nullptr;
  EXPECT_EQ("blockdevice \"vdc\" is the disk of the system; nothing was wiped", asked({"vdc"}));
}

// Catches: data of a volume, of a mount, of swap or of an array that is lost, by the name of the
// partition or by that of its disk.
TEST_F(DevicesToWipe, WhatIsUsedStays) {
  auto refused = [&](kj::StringPtr use) {
    EXPECT_EQ(kj::str("blockdevice \"vdb1\" is ", use, "; nothing was wiped").cStr(),
              asked({"vdb1"}));
    EXPECT_EQ(kj::str("blockdevice \"vdb\" is in use: vdb1 is ", use, "; nothing was wiped").cStr(),
              asked({"vdb"}));
    EXPECT_EQ("/dev/vdb2", asked({"vdb2"}));
  };
  uses.volumes.add(UsesOfDevices::Volume{kj::str("u-data"), kj::str("/dev/vdb1")});
  refused("in use by volume \"u-data\"");
  uses.volumes.clear();
  uses.mountinfo = kj::str("30 1 254:17 / /var/mnt/x rw - xfs /dev/vdb1 rw\n");
  refused("mounted at /var/mnt/x");
  uses.mountinfo = nullptr;
  uses.swaps = kj::str("Filename Type Size Used Priority\n/dev/vdb1 partition 1024 0 -2\n");
  refused("in use as swap");
  uses.swaps = nullptr;
  at("vdb1").held = true;
  refused("in use by another device, such as an array or an open volume");
  at("vdb1").held = false;
  uses.labels.add(kj::str("u-data"));
  refused("in use by volume \"u-data\" of the config");
}

// Catches: a partition of a disk that is used as a whole.
TEST_F(DevicesToWipe, AWholeDiskThatIsUsed) {
  uses.userDisks.add(kj::str("/dev/vdb"));
  EXPECT_EQ("blockdevice \"vdb\" is in use by machine.disks of the config; nothing was wiped",
            asked({"vdb"}));
  EXPECT_EQ(
      "blockdevice \"vdb2\" is in use: vdb is in use by machine.disks of the config; nothing was "
      "wiped",
      asked({"vdb2"}));
}

// Catches: a partition of the system of another label than BOOT, which is erased.
TEST_F(DevicesToWipe, EachPartitionOfTheSystemStays) {
  for (auto& device : uses.devices) {
    if (device.whole || device.disk != "vda" || device.partitionName == "u-old") continue;
    EXPECT_EQ(kj::str("blockdevice \"", device.name, "\" is the partition ", device.partitionName,
                      " of the system; nothing was wiped")
                  .cStr(),
              asked({device.name}));
  }
}

}  // namespace talos::machined
