// A machine with the kernel argument net.ifnames=1: cards with predictable names, including a card
// that is plugged in while the machine runs.
#include <gtest/gtest.h>

#include <regex>

#include "tests/vm/lone-machine.h"
#include "tests/vm/qemu-control.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;

constexpr double kUp = 480;  // emulated, beside whatever else runs

// A card with an index of the firmware, which requests its address by DHCP before the machine has a
// config; a card in device 9 of the first bus; a port into which a third card can be plugged.
LoneMachine::Hardware threeCards() {
  return {.disk = LoneMachine::writtenDisk("../image", {"net.ifnames=1", "biosdevname=1"}),
          .card = "virtio-net-pci,acpi-index=7,mac=52:54:00:00:00:07",
          .more = {"-netdev", "user,id=second,restrict=on,net=10.0.3.0/24", "-device",
                   "virtio-net-pci,netdev=second,mac=52:54:00:00:00:09,addr=0x9,romfile=",
                   "-netdev", "user,id=third,restrict=on,net=10.0.4.0/24", "-device",
                   "pcie-root-port,id=socket,chassis=1,addr=0xa"}};
}

std::string addressOf(const LoneMachine& machine, const std::string& link) {
  return machine.at({"read", "/sys/class/net/" + link + "/address"}).out;
}

}  // namespace

// Catches: a name that networkd's rights or the image's kernel do not let it find; a link that is
// configured before it is renamed; a later link that keeps the kernel's name; selectors, DHCP or a
// config that do not find a link by its new name; names that differ after a boot.
TEST(LinkNames, ArePredictable) {
  std::string monitor;
  auto hardware = threeCards();
  hardware.beforeItStarts = [&](LoneMachine& self, LoneMachine::Hardware& started) {
    monitor = self.path("monitor");
    started.more.insert(started.more.end(), {"-qmp", "unix:" + monitor + ",server=on,wait=off"});
  };
  LoneMachine machine(hardware);
  auto config = std::regex_replace(
      machine.generate(), std::regex("\nmachine:\n"),
      "$&    network:\n"
      "        interfaces:\n"
      "            - {interface: eno7, dhcp: true}\n"
      "            - {deviceSelector: {hardwareAddr: '52:54:00:00:00:09'}, cidr: 10.0.3.9/24}\n"
      "            - {interface: enp1s0, cidr: 10.0.4.9/24}\n");
  config = std::regex_replace(config, std::regex("\n    network: \\{\\}"), "");
  ASSERT_NO_FATAL_FAILURE(machine.configure(config));
  auto shows = [&](const std::vector<std::string>& what, const std::string& text) {
    harness::Result result;
    bool shown = eventually(
        [&] {
          result = machine.at(what);
          return contains(result.out, text);
        },
        kUp, 1);
    EXPECT_TRUE(shown) << text << "\n" << result.out << result.err << machine.console();
    return shown;
  };
  ASSERT_TRUE(shows({"get", "addresses"}, "enp0s9/10.0.3.9/24"));
  EXPECT_TRUE(shows({"get", "addresses"}, "eno7/10.0.2.15/24"));
  EXPECT_TRUE(shows({"interfaces"}, "eno7"));
  EXPECT_TRUE(contains(addressOf(machine, "eno7"), "52:54:00:00:00:07"));
  EXPECT_TRUE(contains(addressOf(machine, "enp0s9"), "52:54:00:00:00:09"));
  auto links = machine.at({"get", "links"}).out;
  EXPECT_FALSE(std::regex_search(links, std::regex(" eth[0-9]"))) << links;
  EXPECT_FALSE(contains(machine.at({"get", "linkspecs"}).out, "eth0"));

  QemuControl(monitor).command("device_add",
                               R"({"driver": "virtio-net-pci", "netdev": "third", "bus": "socket",)"
                               R"( "mac": "52:54:00:00:00:0a", "romfile": ""})");
  ASSERT_TRUE(shows({"get", "addresses"}, "enp1s0/10.0.4.9/24"));
  EXPECT_TRUE(contains(addressOf(machine, "enp1s0"), "52:54:00:00:00:0a"));

  EXPECT_EQ(machine.at({"service", "networkd", "kill", "--signal", "SIGKILL"}).status, 0);
  ASSERT_TRUE(shows({"get", "addresses"}, "enp0s9/10.0.3.9/24"));

  machine.startFromDisk();
  ASSERT_TRUE(shows({"get", "addresses"}, "enp0s9/10.0.3.9/24"));
  EXPECT_TRUE(contains(addressOf(machine, "eno7"), "52:54:00:00:00:07"));
}

}  // namespace talos::vm
