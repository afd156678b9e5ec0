// Links that a running machine gets by its config, and loses again, without a reboot.
#include <gtest/gtest.h>

#include "tests/vm/shared.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;

constexpr const char* kKey = "YAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=";
constexpr const char* kPeer = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=";

std::string patchWithLinks() {
  return std::string(R"(machine:
  network:
    interfaces:
      - interface: port1
        dummy: true
      - interface: port2
        dummy: true
      - interface: bond1
        bond: {mode: active-backup, miimon: 100, primary: port2, interfaces: [port1, port2]}
        vlans:
          - vlanId: 100
            cidr: 192.168.77.2/24
      - interface: port3
        dummy: true
      - interface: br1
        addresses: [192.168.76.1/24]
        bridge: {interfaces: [port3], stp: {enabled: true}}
        routes:
          - {network: 192.168.75.0/24, gateway: 192.168.76.254, source: 192.168.76.1, mtu: 1400}
          - {network: 192.168.74.0/24, type: blackhole}
      - interface: wg0
        cidr: 192.168.78.1/24
        wireguard:
          privateKey: )") +
         kKey +
         "\n          listenPort: 51820\n          peers:\n            - publicKey: " + kPeer +
         R"(
              endpoint: 192.0.2.7:51820
              persistentKeepaliveInterval: 25s
              allowedIPs: [192.168.79.0/24]
)";
}

void patch(const std::string& text) {
  // Until the network is as the config wants it, which a bridge with STP delays.
  machine().ok({"patch", "mc", "--immediate", "-p", text}, 120);
}

}  // namespace

// Catches: a driver that the kernel cannot load for networkd, a step that this kernel refuses, a
// private key in the output, and links that stay when the config does not name them any more.
TEST(Links, TheConfigMakesThemAndTakesThemAway) {
  auto& m = machine();
  patch(patchWithLinks());
  auto made = [&] {
    auto tree = m.ok({"get", "links", "-o", "tree"});
    return contains(tree, "├─ port1") && contains(tree, "└─ bond1.100") && contains(tree, "wg0");
  };
  EXPECT_TRUE(eventually(made, 30))
      << m.ok({"get", "links", "-o", "tree"}) << m.ok({"get", "netstatus", "-o", "yaml"})
      << m.ok({"logs", "networkd"});
  auto addressed = [&] {
    return contains(m.ok({"get", "addresses"}), "bond1.100/192.168.77.2/24");
  };
  EXPECT_TRUE(eventually(addressed, 20)) << m.ok({"get", "addresses"});
  auto bond = m.ok({"read", "/proc/net/bonding/bond1"});
  EXPECT_TRUE(contains(bond, "Primary Slave: port2 (primary_reselect always)")) << bond;
  EXPECT_TRUE(contains(bond, "MII Polling Interval (ms): 100")) << bond;
  auto tunnel = m.ok({"get", "link", "wg0", "-o", "yaml"});
  EXPECT_TRUE(contains(tunnel, "192.0.2.7:51820")) << tunnel;
  EXPECT_TRUE(contains(tunnel, "persistentKeepaliveInterval: 25")) << tunnel;
  auto bridge = m.ok({"get", "link", "br1", "-o", "yaml"});
  EXPECT_TRUE(contains(bridge, "stp: true")) << bridge;
  auto routed = [&] {
    auto routes = m.ok({"get", "routes", "-o", "yaml"});
    return contains(routes, "type: blackhole") && contains(routes, "mtu: 1400");
  };
  EXPECT_TRUE(eventually(routed, 20)) << m.ok({"get", "routes", "-o", "yaml"});
  // A bridge with STP listens and learns for half a minute before it has carrier.
  auto content = [&] { return contains(m.ok({"get", "netstatus", "-o", "yaml"}), "problems: []"); };
  EXPECT_TRUE(eventually(content, 60)) << m.ok({"get", "netstatus", "-o", "yaml"});
  for (auto& shown : {m.ok({"get", "linkspecs", "-o", "yaml"}), tunnel, m.ok({"logs", "networkd"}),
                      m.ok({"logs", "machined"})}) {
    EXPECT_FALSE(contains(shown, kKey)) << shown;
  }

  std::string gone = "machine:\n  network:\n    interfaces:\n";
  for (auto name : {"port1", "port2", "port3", "bond1", "br1", "wg0"}) {
    gone += std::string("      - interface: ") + name + "\n        $patch: delete\n";
  }
  patch(gone);
  auto cleared = [&] {
    auto links = m.ok({"get", "links"});
    return !contains(links, "port") && !contains(links, "br1") && !contains(links, "bond1") &&
           !contains(links, "wg0");
  };
  EXPECT_TRUE(eventually(cleared, 30)) << m.ok({"get", "links"}) << m.ok({"logs", "networkd"});
  EXPECT_TRUE(contains(m.ok({"get", "linkspecs"}), "NODE"));
}

// Catches: a sandbox in which networkd cannot identify its hardware.
TEST(Links, HardwareSaysWhatItIs) {
  auto link = machine().ok({"get", "link", "eth0", "-o", "yaml"});
  EXPECT_TRUE(contains(link, "driver: virtio_net")) << link;
  EXPECT_TRUE(contains(link, "0000:0")) << link;
  EXPECT_TRUE(contains(link, "1af4:10")) << link;
  EXPECT_TRUE(contains(link, "permanentAddr: ")) << link;
}

}  // namespace talos::vm
