#include "networkd/control/sysfs-card.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <linux/pci_regs.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/folder.h"

namespace talos::networkd {
namespace {

// A folder with the layout of /sys.
class SysfsCard : public testing::Test {
 public:
  SysfsCard() {
    char pattern[] = "/tmp/sysfs-card-XXXXXX";
    KJ_ASSERT(mkdtemp(pattern) != nullptr);
    sys = kj::str(pattern);
    makeDirectories(at("class/net"));
  }
  ~SysfsCard() noexcept override { removeTree(sys); }

 protected:
  kj::String sys;
  netlink::Link link;

  kj::String at(kj::StringPtr path) { return kj::str(sys, "/", path); }
  void file(kj::StringPtr path, kj::StringPtr content) {
    makeDirectories(folderOf(at(path)));
    writeFileAtomically(at(path), kj::str(content, "\n"), 0644);
  }
  void points(kj::StringPtr from, kj::StringPtr to) {
    makeDirectories(folderOf(at(from)));
    KJ_SYSCALL(symlink(at(to).cStr(), at(from).cStr()));
  }
  void device(kj::StringPtr path, kj::StringPtr subsystem) {
    makeDirectories(at(path));
    makeDirectories(at(kj::str("bus/", subsystem)));
    points(kj::str(path, "/subsystem"), kj::str("bus/", subsystem));
  }
  // Makes eth0 of that device, as the kernel names it, with the address 52:54:00:00:00:01.
  void card(kj::StringPtr path) {
    auto entry = kj::str(path, "/net/eth0");
    file(kj::str(entry, "/ifindex"), "2");
    file(kj::str(entry, "/name_assign_type"), "1");
    file(kj::str(entry, "/addr_assign_type"), "0");
    file(kj::str(entry, "/dev_port"), "0");
    points(kj::str(entry, "/device"), path);
    points("class/net/eth0", entry);
    link.index = 2;
    link.name = kj::str("eth0");
    link.type = ARPHRD_ETHER;
    constexpr kj::byte kAddress[] = {0x52, 0x54, 0, 0, 0, 1};
    link.hardwareAddress = kj::heapArray<kj::byte>(kAddress);
  }
  kj::String names() {
    KJ_IF_MAYBE (facts, readCard(sys, link)) return kj::strArray(predictableNames(*facts), " ");
    return kj::str("none");
  }
};

constexpr kj::StringPtr kBehindPort = "devices/pci0000:00/0000:00:1c.3/0000:05:00.0"_kj;

}  // namespace

// Catches: a virtio card, which is a device on a PCI device, without a name.
TEST_F(SysfsCard, OfVirtio) {
  device("devices/pci0000:00/0000:00:03.0", "pci");
  device("devices/pci0000:00/0000:00:03.0/virtio0", "virtio");
  card("devices/pci0000:00/0000:00:03.0/virtio0");
  EXPECT_STREQ(names().cStr(), "enp0s3 enx525400000001");
  file("devices/LNXSYSTM:00/device:02/sun", "3");
  points("devices/pci0000:00/0000:00:03.0/firmware_node", "devices/LNXSYSTM:00/device:02");
  EXPECT_STREQ(names().cStr(), "ens3 enp0s3 enx525400000001");
  file("devices/pci0000:00/0000:00:03.0/index", "7");
  file("devices/pci0000:00/0000:00:03.0/acpi_index", "5");
  EXPECT_STREQ(names().cStr(), "eno5 ens3 enp0s3 enx525400000001");
}

// Catches: a slot, a bridge, a bit of the configuration or a port that is read from another place.
TEST_F(SysfsCard, BehindAPort) {
  device("devices/pci0000:00/0000:00:1c.3", "pci");
  device(kBehindPort, "pci");
  card(kBehindPort);
  file("bus/pci/slots/0/address", "0000:05:00");
  file("bus/pci/slots/enclosure/address", "0000:05:00");
  EXPECT_STREQ(names().cStr(), "enp5s0 enx525400000001");
  file("bus/pci/slots/12/address", "0000:00:1c");
  EXPECT_STREQ(names().cStr(), "ens12 enp5s0 enx525400000001");
  file("devices/pci0000:00/0000:00:1c.3/class", "0x060400");
  EXPECT_STREQ(names().cStr(), "enp5s0 enx525400000001");
  char config[64] = {};
  config[PCI_HEADER_TYPE] = char(0x80);
  writeFileAtomically(at(kj::str(kBehindPort, "/config")), kj::arrayPtr(config, sizeof(config)),
                      0644);
  file(kj::str(kBehindPort, "/net/eth0/dev_port"), "1");
  EXPECT_STREQ(names().cStr(), "enp5s0f0d1 enx525400000001");
  file(kj::str(kBehindPort, "/net/eth0/phys_port_name"), "p0");
  file(kj::str(kBehindPort, "/net/eth0/addr_assign_type"), "1");  // random
  EXPECT_STREQ(names().cStr(), "enp5s0f0np0");
}

// Catches: virtual functions of one card that are named as separate cards.
TEST_F(SysfsCard, AVirtualFunction) {
  device("devices/pci0000:00/0000:05:00.0", "pci");
  device("devices/pci0000:00/0000:05:02.1", "pci");
  points("devices/pci0000:00/0000:05:02.1/physfn", "devices/pci0000:00/0000:05:00.0");
  points("devices/pci0000:00/0000:05:00.0/virtfn3", "devices/pci0000:00/0000:05:02.0");
  points("devices/pci0000:00/0000:05:00.0/virtfn11", "devices/pci0000:00/0000:05:02.1");
  card("devices/pci0000:00/0000:05:02.1");
  EXPECT_STREQ(names().cStr(), "enp5s0v11 enx525400000001");
}

// Catches: a USB card that is named as its controller.
TEST_F(SysfsCard, OnUsb) {
  auto interface = "devices/pci0000:00/0000:00:1d.0/usb2/2-1/2-1.2/2-1.2:1.0"_kj;
  device("devices/pci0000:00/0000:00:1d.0", "pci");
  for (kj::StringPtr path :
       {"devices/pci0000:00/0000:00:1d.0/usb2"_kj, "devices/pci0000:00/0000:00:1d.0/usb2/2-1"_kj,
        "devices/pci0000:00/0000:00:1d.0/usb2/2-1/2-1.2"_kj, interface}) {
    device(path, "usb");
  }
  card(interface);
  EXPECT_STREQ(names().cStr(), "enp0s29u1u2 enx525400000001");
}

TEST_F(SysfsCard, OfXenAndWithoutAPlace) {
  device("devices/vif-0", "xen");
  card("devices/vif-0");
  EXPECT_STREQ(names().cStr(), "enX0 enx525400000001");
}

// Catches: Hyper-V cards, two of which share an address, named by it.
TEST_F(SysfsCard, OfAnotherBus) {
  device("devices/LNXSYSTM:00/f8615163", "vmbus");
  card("devices/LNXSYSTM:00/f8615163");
  EXPECT_STREQ(names().cStr(), "none");
}

// Catches: a chosen name, by this program in an earlier run or by another, that is changed; a link
// of another index that has got the name; a virtual link.
TEST_F(SysfsCard, OnlyOneThatHasTheKernelsName) {
  device("devices/pci0000:00/0000:00:03.0", "pci");
  card("devices/pci0000:00/0000:00:03.0");
  auto type = "devices/pci0000:00/0000:00:03.0/net/eth0/name_assign_type"_kj;
  for (auto chosen : {"2", "3", "4"}) {
    file(type, chosen);
    EXPECT_STREQ(names().cStr(), "none") << chosen;
  }
  removeTree(at(type));
  EXPECT_STREQ(names().cStr(), "enp0s3 enx525400000001");
  link.index = 3;
  EXPECT_STREQ(names().cStr(), "none");
  file("devices/virtual/net/veth0/ifindex", "9");
  points("class/net/veth0", "devices/virtual/net/veth0");
  link.index = 9;
  link.name = kj::str("veth0");
  EXPECT_STREQ(names().cStr(), "none");
}

}  // namespace talos::networkd
