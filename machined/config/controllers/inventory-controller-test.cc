// Resources of the machine, and the parsers of the kernel's files for them.
#include "machined/config/controllers/inventory-controller.h"

#include "common/testing/test-tree.h"
#include "machined/config/controllers/machine-inventory.h"
#include "machined/config/controllers/test-machine-config.h"
#include "rpc/hardware-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"

namespace talos::machined {
namespace {

struct InventoryTest : public ConfigTest {
  TestTree tree;
  kj::String sys = tree.at("sys"), proc = tree.at("proc");

  // A machine with firmware, two packages and a network card, with secure boot.
  InventoryTest() {
    tree.directory("proc");
    tree.directory("sys/class/dmi/id");
    tree.file("sys/class/dmi/id/sys_vendor", "Example Inc. \n");
    tree.file("sys/class/dmi/id/product_uuid", "4C4C4544-0042-3510-8051-B4C04F4A3132\n");
    tree.directory("sys/bus/pci/devices/0000:00:1f.2");
    tree.file("sys/bus/pci/devices/0000:00:1f.2/vendor", "0x8086\n");
    tree.file("sys/bus/pci/devices/0000:00:1f.2/class", "0x020100\n");
    tree.directory("sys/devices/system/node/node0");
    tree.file("sys/devices/system/node/node0/cpulist", "0-2\n");
    tree.file("sys/devices/system/node/node0/distance", "10 21\n");
    tree.directory("sys/kernel/iommu_groups/7/devices/0000:00:1f.2");
    tree.file("sys/kernel/iommu_groups/7/type", "DMA\n");
    tree.directory("sys/kernel/boot_params");
    setSecureBoot(3);
    tree.file("proc/cpuinfo",
              "processor\t: 0\nvendor_id\t: GenuineIntel\nmicrocode\t: 0x2b000639\nmodel name\t: A "
              "CPU\nphysical id\t: 1\n"
              "cpu cores\t: 2\n\nprocessor\t: 1\nvendor_id\t: GenuineIntel\nmodel name\t: A CPU\n"
              "physical id\t: 0\ncpu cores\t: 2\n\nprocessor\t: 2\nphysical id\t: 1\n");
  }
  void setSecureBoot(char value) {
    auto data = kj::heapString(4096);
    memset(data.begin(), 0, data.size());
    data[0x1ec] = value;
    tree.file("sys/kernel/boot_params/data", data);
  }
  void run(kj::StringPtr platform, int landlock = 7) {
    runtime.add(kj::heap<InventoryController>(uv, platform, InventoryPaths{sys, proc}, landlock));
    runtime.whenIdle().wait(io.waitScope);
  }
  template <typename Spec>
  size_t count() {
    return store.list<Spec>().size();
  }
};

// Catches: hardware that is missing, is in another form than Talos', or belongs to another
// package.
TEST_F(InventoryTest, AMachineShowsItsHardware) {
  run("metal");
  auto system = KJ_ASSERT_NONNULL(store.tryGet<rpc::SystemInformationSpec>("systeminformation"));
  EXPECT_STREQ("Example Inc.", system.getManufacturer().cStr());
  EXPECT_STREQ("4c4c4544-0042-3510-8051-b4c04f4a3132", system.getUuid().cStr());
  EXPECT_STREQ("", system.getSerialNumber().cStr());
  ASSERT_EQ(2u, count<rpc::ProcessorSpec>());
  auto second = KJ_ASSERT_NONNULL(store.tryGet<rpc::ProcessorSpec>("CPU-1"));
  EXPECT_EQ(2u, second.getThreadCount());
  EXPECT_EQ(2u, second.getCoreCount());
  EXPECT_STREQ("A CPU", second.getProductName().cStr());
  EXPECT_EQ(1u, KJ_ASSERT_NONNULL(store.tryGet<rpc::ProcessorSpec>("CPU-0")).getThreadCount());
  EXPECT_STREQ("0x2b000639", second.getMicrocode().cStr());
  auto node = KJ_ASSERT_NONNULL(store.tryGet<rpc::NumaNodeSpec>("node0"));
  EXPECT_EQ("0-2 21", kj::str(node.getCpus(), " ", node.getDistances()[1]));
  auto group = KJ_ASSERT_NONNULL(store.tryGet<rpc::IommuGroupSpec>("7"));
  EXPECT_EQ("DMA 0000:00:1f.2", kj::str(group.getType(), " ", group.getDevices()[0]));
  auto device = KJ_ASSERT_NONNULL(store.tryGet<rpc::PciDeviceSpec>("0000:00:1f.2"));
  EXPECT_STREQ(
      "0x02 0x01 0x8086",
      kj::str(device.getClassId(), " ", device.getSubclassId(), " ", device.getVendorId()).cStr());
  EXPECT_TRUE(
      KJ_ASSERT_NONNULL(store.tryGet<rpc::SecurityStateSpec>("securitystate")).getSecureBoot());
}

// Catches: a missing warning on a kernel that does not restrict services' access to files; a
// warning on a kernel that does.
TEST_F(InventoryTest, SaysWhatServicesAreNotKeptFrom) {
  EXPECT_EQ(0u, confine::Landlock::notRestricted(6).size());
  EXPECT_EQ(5u, confine::Landlock::notRestricted(0).size());
  run("container", 5);
  auto state = KJ_ASSERT_NONNULL(store.tryGet<rpc::SecurityStateSpec>("securitystate"));
  EXPECT_EQ(5u, state.getLandlock());
  ASSERT_EQ(1u, state.getUnrestricted().size());
  EXPECT_STREQ("signals to processes of its user, and abstract sockets",
               state.getUnrestricted()[0].cStr());
}

// Catches: marks of a platform that are read from another table of the firmware.
TEST_F(InventoryTest, Firmware) {
  tree.file("sys/class/dmi/id/chassis_asset_tag", "OracleCloud.com\n");
  auto firmware = readFirmware(sys);
  EXPECT_EQ(kj::str(firmware.vendor, "|", firmware.uuid, "|", firmware.chassisTag),
            "Example Inc.|4c4c4544-0042-3510-8051-b4c04f4a3132|OracleCloud.com");
  EXPECT_EQ(readFirmware(proc).vendor, "");
}

// Catches: a machine whose firmware checks no signatures and that reports secure boot.
TEST_F(InventoryTest, SecureBootThatIsOffOrNotKnown) {
  for (char value : {0, 1, 2}) {
    setSecureBoot(value);
    EXPECT_FALSE(bootedSecurely(sys)) << int(value);
  }
  tree.file("sys/kernel/boot_params/data", "short");
  EXPECT_FALSE(bootedSecurely(sys));
  EXPECT_FALSE(bootedSecurely("/nowhere"));
}

// Catches: a container that shows the host's hardware as its own, or lacks a resource of every
// node.
TEST_F(InventoryTest, AContainerHasNoHardware) {
  run("container");
  EXPECT_EQ(0u, count<rpc::SystemInformationSpec>());
  EXPECT_EQ(0u, count<rpc::ProcessorSpec>());
  EXPECT_EQ(0u, count<rpc::PciDeviceSpec>());
  EXPECT_EQ(0u, count<rpc::NumaNodeSpec>());
  EXPECT_EQ(0u, count<rpc::IommuGroupSpec>());
  EXPECT_FALSE(
      KJ_ASSERT_NONNULL(store.tryGet<rpc::SecurityStateSpec>("securitystate")).getSecureBoot());
  EXPECT_TRUE(KJ_ASSERT_NONNULL(store.tryGet<rpc::MetaLoadSpec>("meta-loaded")).getDone());
  EXPECT_TRUE(KJ_ASSERT_NONNULL(store.tryGet<rpc::DevicesStatusSpec>("devices")).getReady());
}

// Catches: a kernel text that the parser does not expect.
TEST(Inventory, ProcessorsOfAnyText) {
  EXPECT_EQ(0u, processorPackages(""_kj.asArray()).size());
  EXPECT_EQ(0u, processorPackages("no colon\n: \nmodel name : x"_kj.asArray()).size());
  auto one = processorPackages("processor: 0\nphysical id: many\nprocessor: 1"_kj.asArray());
  ASSERT_EQ(1u, one.size());
  EXPECT_EQ(0u, one[0].socket);
  EXPECT_EQ(2u, one[0].threads);
  EXPECT_TRUE(readSystemInformation("/nowhere") == nullptr);
}

}  // namespace
}  // namespace talos::machined
