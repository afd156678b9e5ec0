// The image for machines (`make iso FLAVOUR=metal`) with each network card and each disk controller
// that QEMU has, as the only one; and the media from which such a machine can be started.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/vm/lone-machine.h"
#include "tests/vm/qemu-control.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
namespace fs = std::filesystem;

constexpr double kUp = 480;  // emulated, beside whatever else runs

std::string metalIso() {
  return LoneMachine::image("../image-metal/talos.iso");
}
bool answers(const LoneMachine& machine) {
  return eventually([&] { return contains(machine.unproven({"disks"}).out, "2.1 GB"); }, kUp, 1);
}

class Hardware : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(fs::exists(metalIso())) << "make iso FLAVOUR=metal first"; }
};

class Cards : public Hardware, public testing::WithParamInterface<const char*> {};

struct Disk {
  const char* name;
  std::vector<std::string> controller;
  const char* path;
};
void PrintTo(const Disk& disk, std::ostream* out) {
  *out << disk.name;
}
Disk scsi(const char* name, const std::string& more = "") {
  return {name, {std::string(name) + ",id=bus", "scsi-hd,bus=bus.0" + more}, "/dev/sda"};
}
// A disk of SAS has such a name; the driver takes a device without one for none.
constexpr const char* kNameOfSas = ",wwn=0x5000c50015ea71ac";
// The kernel names a USB card usb0, which gets no DHCP by default, if its address is not its
// maker's but locally administered, as QEMU's own is.
constexpr const char* kUsbCard = "usb-net,mac=00:16:3e:00:00:01";
class Disks : public Hardware, public testing::WithParamInterface<Disk> {};

constexpr uintmax_t kRawSize = uintmax_t{7} << 30;

// True if anything was written to a file that was made as one hole (lseek(2), SEEK_DATA).
bool hasData(const std::string& file) {
  int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  auto data = lseek(fd, 0, SEEK_DATA);
  bool none = data < 0 && errno == ENXIO;
  close(fd);
  return !none;
}

std::string identifier(std::string name) {
  name = name.substr(0, name.find(','));
  for (auto& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

}  // namespace

// Catches: a driver that is missing in the image, lacks its dependencies, or is not loaded.
TEST_P(Cards, AsTheOnlyOne) {
  std::string card = GetParam();
  std::vector<std::string> more;
  if (card == kUsbCard) more = {"-usb"};
  LoneMachine machine({.cd = metalIso(), .card = card, .more = more});
  EXPECT_TRUE(answers(machine)) << machine.console().substr(0, 6000);
}
INSTANTIATE_TEST_SUITE_P(Each, Cards,
                         testing::Values("virtio-net-pci", "e1000", "e1000e", "igb", "rtl8139",
                                         "ne2k_pci", "vmxnet3", "pcnet", "tulip", "i82550",
                                         kUsbCard),
                         [](auto& info) { return identifier(info.param); });

// Catches: a disk that is seen and cannot be installed on, or from which the installed system does
// not find its own root.
TEST_P(Disks, InstallsOnItAndStartsFromIt) {
  auto& disk = GetParam();
  LoneMachine machine({.cd = metalIso(), .controller = disk.controller});
  ASSERT_TRUE(answers(machine)) << machine.console().substr(0, 6000);
  auto config = machine.path("config.yaml");
  std::ofstream(config) << machine.generate(disk.path);
  auto applied = machine.unproven({"apply-config", "--file", config});
  ASSERT_EQ(applied.status, 0) << applied.out << applied.err;
  ASSERT_TRUE(eventually(
      [&] { return contains(machine.console(), std::string("installed on ") + disk.path); }, kUp,
      1))
      << machine.console();
  machine.startFromDisk();
  auto cmdline = [&] { return machine.at({"read", "/proc/cmdline"}); };
  EXPECT_TRUE(eventually([&] { return contains(cmdline().out, "talos.slot=A"); }, kUp, 1))
      << cmdline().out << cmdline().err << machine.console();
}
INSTANTIATE_TEST_SUITE_P(
    Each, Disks,
    testing::Values(Disk{"virtio-blk", {"virtio-blk-pci"}, "/dev/vda"}, scsi("virtio-scsi-pci"),
                    Disk{"nvme", {"nvme,serial=hardware"}, "/dev/nvme0n1"},
                    Disk{"ahci", {"ahci,id=bus", "ide-hd,bus=bus.0"}, "/dev/sda"},
                    Disk{"ide", {"piix3-ide,id=bus", "ide-hd,bus=bus.0"}, "/dev/sda"},
                    scsi("megasas"), scsi("lsi53c895a"), scsi("pvscsi"),
                    scsi("mptsas1068", kNameOfSas),
                    Disk{"usb-storage", {"qemu-xhci", "usb-storage"}, "/dev/sda"},
                    Disk{"sd-card", {"sdhci-pci", "sd-card"}, "/dev/mmcblk0"}),
    [](auto& info) { return identifier(info.param.name); });

// Catches: an image whose first sector no BIOS takes for a disk's; a system that needs the stick
// that its driver has not found yet.
TEST_F(Hardware, StartsFromAStick) {
  LoneMachine machine({.stick = metalIso()});
  EXPECT_TRUE(answers(machine)) << machine.console().substr(0, 6000);
}

// Catches: a script that iPXE does not read, a kernel that does not find its initramfs.
TEST_F(Hardware, StartsFromItsNetwork) {
  auto folder = LoneMachine::image("../image-metal/pxe-amd64.pxe");
  ASSERT_TRUE(fs::exists(folder)) << "make image FLAVOUR=metal PLATFORM=pxe first";
  LoneMachine machine({.network = "tftp=" + folder + ",bootfile=boot.ipxe", .networkBoot = true});
  EXPECT_TRUE(answers(machine)) << machine.console().substr(0, 6000);
}

// Catches: a disk of an image that UEFI does not start, or whose system thinks that it is not
// installed, and installs itself over the owner's data.
TEST_F(Hardware, StartsFromADiskThatWasWrittenElsewhere) {
  LoneMachine machine({.uefi = true, .disk = LoneMachine::writtenDisk("../image-metal")});
  machine.configure(machine.generate());
  EXPECT_FALSE(contains(machine.console(), "installing on")) << machine.console();
}

// Catches: names by the order in which drivers are ready, which changes a node's addresses.
TEST_F(Hardware, TwoCardsOfOneKindKeepTheirNames) {
  LoneMachine machine({.disk = LoneMachine::writtenDisk("../image-metal"),
                       .card = "e1000e,mac=52:54:00:00:00:02",
                       .more = {"-netdev", "user,id=other,restrict=on,net=10.0.3.0/24", "-device",
                                "e1000e,netdev=other,mac=52:54:00:00:00:01,romfile="}});
  machine.configure(machine.generate());
  auto names = [&] {
    std::map<std::string, std::string> found;
    for (auto link : {"eth0", "eth1"}) {
      auto address = machine.at({"read", std::string("/sys/class/net/") + link + "/address"}).out;
      if (!address.empty()) found[link] = address;
    }
    return found;
  };
  ASSERT_TRUE(eventually([&] { return names().size() == 2; }, kUp, 1)) << machine.console();
  auto before = names();
  EXPECT_NE(before["eth0"], before["eth1"]);
  for (int boot = 0; boot < 3; ++boot) {
    machine.startFromDisk();
    ASSERT_TRUE(eventually([&] { return names().size() == 2; }, kUp, 1)) << machine.console();
    EXPECT_EQ(names(), before);
  }
}

// Catches: a health or a temperature that is read from a model of sysfs only; a failing disk that
// passes; a disk of ATA whose answer is not understood.
TEST_F(Hardware, ShowsTheHealthOfItsDisks) {
  std::vector<std::string> more;
  for (std::string warning : {"0", "1"}) {
    auto id = "nvme" + warning;
    more.insert(
        more.end(),
        {"-drive", "if=none,id=" + id + ",format=raw,file.driver=null-co,file.size=64M", "-device",
         "nvme,serial=" + id + ",smart_critical_warning=" + warning + ",drive=" + id});
  }
  LoneMachine machine({.disk = LoneMachine::writtenDisk("../image-metal"),
                       .controller = {"ahci,id=bus", "ide-hd,bus=bus.0"},
                       .more = more});
  machine.configure(machine.generate());
  auto shows = [&](std::vector<std::string> what, std::vector<std::string> texts) {
    what.insert(what.begin(), "get");
    harness::Result result;
    bool all = eventually(
        [&] {
          result = machine.at(what);
          return std::all_of(texts.begin(), texts.end(),
                             [&](auto& text) { return contains(result.out, text); });
        },
        kUp, 1);
    EXPECT_TRUE(all) << result.out << result.err << machine.console();
  };
  shows({"smart"}, {"passed", "failing", "NVMe", "ATA", "spare capacity is below its threshold"});
  shows({"sensors"}, {"nvme", "Composite", "50 "});  // QEMU's disks have 50 degrees
  shows({"cpus", "-o", "yaml"}, {"microcode: "});
  shows({"numa"}, {"node0"});
}

// Catches: a driver of Ceph that is not in the image, or lacks a part; a module that pods cannot
// load, because the image has no index for their modprobe, and that nothing else loads either; a
// disk for Ceph that the node hides, or touches.
TEST_F(Hardware, HasWhatRookExpects) {
  std::string raw;
  LoneMachine machine({.disk = LoneMachine::writtenDisk("../image-metal"),
                       .beforeItStarts = [&](LoneMachine& self, LoneMachine::Hardware& hardware) {
                         raw = self.path("raw");
                         std::ofstream(raw).flush();
                         std::filesystem::resize_file(raw, kRawSize);
                         hardware.more = {"-drive", "if=none,id=raw,format=raw,file=" + raw,
                                          "-device", "virtio-blk-pci,serial=for-ceph,drive=raw"};
                       }});
  auto config = machine.generate();
  const std::string mark = "\nmachine:\n";
  auto at = config.find(mark);
  ASSERT_NE(at, std::string::npos) << config;
  config.insert(at + mark.size(), "    kernel: {modules: [{name: rbd}, {name: ceph}]}\n");
  machine.configure(config);
  auto file = [&](const char* path) { return machine.at({"read", path}).out; };
  EXPECT_TRUE(eventually([&] { return contains(file("/proc/modules"), "ceph "); }, kUp, 1))
      << machine.console();
  // The driver of CSI reads it before it would call modprobe.
  EXPECT_EQ(file("/sys/bus/rbd/supported_features").substr(0, 2), "0x");
  EXPECT_TRUE(contains(file("/proc/filesystems"), "\tceph\n")) << file("/proc/filesystems");
  auto disks = machine.at({"disks"}).out;
  EXPECT_TRUE(contains(disks, "/dev/vdb") && contains(disks, "7.5 GB")) << disks;
  // The folders of the node that its pods mount.
  for (auto folder : {"/run", "/lib/modules", "/var/lib"}) {
    auto listed = machine.at({"ls", folder});
    EXPECT_EQ(listed.status, 0) << folder << ": " << listed.err;
  }
  EXPECT_FALSE(hasData(raw)) << "the node wrote to a disk that is not its own";
}

// Catches: a chipset whose watchdog is not found, a processor whose memory errors are not counted,
// warnings about parts that this machine does not have, and a disk whose driver does not get the
// options of the command line.
TEST_F(Hardware, DriversOfTheChipsetAndTheProcessor) {
  LoneMachine machine({.disk = LoneMachine::writtenDisk("../image-metal"),
                       .controller = {"nvme,serial=talos"},
                       .more = {"-machine", "q35", "-cpu", "Skylake-Server"}});
  machine.configure(machine.generate("/dev/nvme0n1"));
  auto file = [&](const char* path) { return machine.at({"read", path}).out; };
  auto loaded = [&](const char* name) {
    return contains("\n" + file("/proc/modules"), "\n" + std::string(name) + " ");
  };
  for (auto name : {"lpc_ich", "iTCO_wdt", "i2c_i801", "skx_edac_common"}) {
    EXPECT_TRUE(eventually([&] { return loaded(name); }, kUp, 1)) << name << machine.console();
  }
  EXPECT_FALSE(loaded("ghash_clmulni_intel")) << "a cipher that nobody uses";
  EXPECT_EQ(file("/sys/module/nvme_core/parameters/io_timeout"), "4294967295\n");
  EXPECT_FALSE(contains(machine.console(), "refused the module")) << machine.console();
}

// Catches: a card that has no address and no route of IPv6, because its driver is loaded after
// accept_ra was set. QEMU's own network has a router.
TEST_F(Hardware, HasTheAddressThatARouterAdvertises) {
  LoneMachine machine({.disk = LoneMachine::writtenDisk("../image-metal"), .card = "e1000e"});
  machine.configure(machine.generate());
  auto shows = [&](const char* resource, const std::string& text) {
    return eventually([&] { return contains(machine.at({"get", resource}).out, text); }, kUp, 1);
  };
  EXPECT_TRUE(shows("addresses", "fec0::")) << machine.at({"get", "addresses"}).out;
  EXPECT_TRUE(shows("routes", "fe80::2")) << machine.at({"get", "routes"}).out;
  EXPECT_EQ(machine.at({"read", "/proc/sys/net/ipv6/conf/eth0/accept_ra"}).out, "2\n");
}

// Catches: a kernel whose button has no driver in the image, or sends its event elsewhere.
TEST_F(Hardware, ThePowerButtonShutsItDown) {
  std::string monitor;
  LoneMachine machine(
      {.cd = metalIso(), .beforeItStarts = [&](LoneMachine& self, LoneMachine::Hardware& hardware) {
         monitor = self.path("monitor");
         hardware.more = {"-qmp", "unix:" + monitor + ",server=on,wait=off"};
       }});
  ASSERT_TRUE(answers(machine)) << machine.console().substr(0, 6000);
  QemuControl control(monitor);
  control.command("system_powerdown");
  EXPECT_TRUE(control.event("SHUTDOWN", kUp)) << machine.console();
  EXPECT_TRUE(contains(machine.console(), "sequence shutdown: ")) << machine.console();
  EXPECT_FALSE(contains(machine.console(), "going on without it")) << machine.console();
}

}  // namespace talos::vm
