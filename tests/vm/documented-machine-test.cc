// A machine with two disks, two cards and a UUID that its maker forgot to set, by the chapters of
// the users' documents: static addressing, a disk that is selected by its properties, and a key of
// an encrypted partition that cannot be made.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/vm/lone-machine.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
namespace fs = std::filesystem;

constexpr double kUp = 480;  // emulated, beside whatever else runs
constexpr const char* kUuid = "11111111-1111-1111-1111-111111111111";

// Returns QEMU's user network with the addresses of the chapter, and another network at the second
// card. The second disk comes first for the BIOS once it has a system.
LoneMachine::Hardware hardware() {
  LoneMachine::Hardware hardware{.cd = LoneMachine::image("talos.iso"),
                                 .network = "net=10.0.0.0/8,host=10.0.0.1,dhcpstart=10.0.0.201"};
  hardware.beforeItStarts = [](LoneMachine& machine, LoneMachine::Hardware& all) {
    auto second = machine.path("second");
    std::ofstream{second};
    fs::resize_file(second, 4ull << 30);
    all.more = {"-uuid",   kUuid,
                "-drive",  "if=none,id=second,format=raw,file=" + second,
                "-device", "virtio-blk-pci,drive=second,bootindex=0",
                "-netdev", "user,id=other,net=192.168.99.0/24",
                "-device", "virtio-net-pci,netdev=other,romfile="};
  };
  return hardware;
}

// The chapter's lines as they are printed, but for machine.install.
constexpr const char* kDocumented =
    "machine:\n"
    "  network:\n"
    "    hostname: talos\n"
    "    nameservers:\n"
    "      - 10.0.0.1\n"
    "    interfaces:\n"
    "      - interface: eth0\n"
    "        cidr: 10.0.0.201/8\n"
    "        mtu: 8765\n"
    "        routes:\n"
    "          - network: 0.0.0.0/0\n"
    "            gateway: 10.0.0.1\n"
    "      - interface: eth1\n"
    "        ignore: true\n"
    "  time:\n"
    "    servers:\n"
    "      - time.cloudflare.com\n"
    "  install:\n"
    "    diskSelector: {size: '> 3GB', name: 'vd*'}\n";
constexpr const char* kEncrypted =
    "machine: {systemDiskEncryption: {ephemeral: {keys: [{nodeID: {}, slot: 0}]}}}\n";

// True if a table has such a row.
bool hasRow(const std::string& table, const std::string& row) {
  return std::regex_search(table, std::regex(row));
}

void expectStaticAddressing(const LoneMachine& machine) {
  auto get = [&](std::vector<std::string> words) { return machine.at(std::move(words)).out; };
  EXPECT_TRUE(hasRow(get({"get", "hostname"}), "\\stalos\\s")) << get({"get", "hostname"});
  EXPECT_TRUE(hasRow(get({"get", "addresses"}), "eth0/10\\.0\\.0\\.201/8"))
      << get({"get", "addresses"});
  auto card = get({"get", "link", "eth0", "-o", "yaml"});
  EXPECT_TRUE(contains(card, "mtu: 8765\n")) << card;
  EXPECT_TRUE(hasRow(get({"read", "/proc/net/route"}), "eth0\t00000000\t0100000A\t"))
      << get({"read", "/proc/net/route"});
  EXPECT_TRUE(contains(get({"read", "/etc/resolv.conf"}), "nameserver 10.0.0.1\n"))
      << get({"read", "/etc/resolv.conf"});
  EXPECT_TRUE(contains(get({"get", "timeservers"}), "time.cloudflare.com"))
      << get({"get", "timeservers"});
  // The second card had an address until there was a config.
  EXPECT_TRUE(contains(get({"get", "links"}), "eth1")) << get({"get", "links"});
  EXPECT_FALSE(contains(get({"get", "addresses"}), "192.168.99.")) << get({"get", "addresses"});
  EXPECT_FALSE(contains(get({"get", "leases"}), "eth1")) << get({"get", "leases"});
}

// Catches: a disk that is selected by its name, or because it comes first; a card that gets a DHCP
// request although it is to be ignored, an MTU or a route that stays in the config; a key that is
// made of a UUID that other machines have, or whose refusal comes after the disk was written.
TEST(DocumentedMachine, InstallsItselfOnTheSelectedDisk) {
  ASSERT_TRUE(fs::exists(LoneMachine::image("talos.iso"))) << "make iso first";
  LoneMachine machine(hardware());
  auto config = machine.path("config.yaml");
  std::ofstream(config) << machine.generate("/dev/vda");
  ASSERT_TRUE(
      eventually([&] { return contains(machine.unproven({"disks"}).out, "4.3 GB"); }, kUp, 1))
      << machine.console();
  auto refused = machine.unproven({"apply-config", "--file", config, "--config-patch", kDocumented,
                                   "--config-patch", kEncrypted});
  EXPECT_EQ(refused.status, 1) << refused.out;
  EXPECT_TRUE(contains(refused.err, std::string("no key can be made of nodeID: the UUID of this "
                                                "machine, ") +
                                        kUuid + ", is not random"))
      << refused.err;
  EXPECT_FALSE(contains(machine.console(), "installing on")) << machine.console();

  auto applied =
      machine.unproven({"apply-config", "--file", config, "--config-patch", kDocumented});
  ASSERT_EQ(applied.status, 0) << applied.out << applied.err;
  ASSERT_TRUE(eventually(
      [&] { return contains(machine.at({"read", "/proc/cmdline"}).out, "talos.slot=A"); }, kUp, 1))
      << machine.console();
  EXPECT_TRUE(contains(machine.console(), "installing on /dev/vdb")) << machine.console();
  auto mounts = machine.at({"mounts"}).out;
  EXPECT_TRUE(hasRow(mounts, "/dev/vdb\\d .* /system/state\n")) << mounts;
  std::ifstream first(machine.path("disk"), std::ios::binary);
  std::string head(1 << 20, 'x');
  first.read(head.data(), std::streamsize(head.size()));
  EXPECT_EQ(head, std::string(head.size(), '\0')) << "the disk that was named was written to";
  expectStaticAddressing(machine);
}

}  // namespace
}  // namespace talos::vm
