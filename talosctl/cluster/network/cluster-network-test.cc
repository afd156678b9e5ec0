#include "talosctl/cluster/network/cluster-network.h"

#include <gtest/gtest.h>

#include "common/netlink/netlink.h"
#include "common/testing/test-namespace.h"

namespace talos::cluster {
namespace {

kj::String addressOfBridge() {
  auto kernel = netlink::openKernel();
  return netlink::hardwareText(
      KJ_ASSERT_NONNULL(netlink::findLink(*kernel, "bridge")).hardwareAddress);
}

}  // namespace

// Catches: a gateway whose hardware address changes when a node is killed or started, so that the
// other nodes cannot reach it until they resolve its address again.
TEST(ClusterNetwork, TheBridgeKeepsItsHardwareAddressWhenNodesComeAndGo) {
  struct Row {
    kj::StringPtr gateway, address, bridge;
  };
  for (auto& row : {Row{"10.5.0.1/24", "10.5.0.2", "02:00:0a:05:00:01"},
                    Row{"fd00:10:5::1/64", "fd00:10:5::2", "02:00:00:00:00:01"}}) {
    inNamespace([&] {
      Network network(kj::arr(KJ_ASSERT_NONNULL(Prefix::parse(row.gateway))), 1500);
      auto own = kj::arr(Ip::require(row.address));
      EXPECT_EQ(addressOfBridge(), row.bridge);
      for (int round = 0; round < 2; ++round) {
        auto first = network.addContainer("node0", {.addresses = own, .mac = "00:00:5e:00:53:01"});
        EXPECT_EQ(addressOfBridge(), row.bridge);
        network.addTap(round == 0 ? "tap0" : "tap1");
        EXPECT_EQ(addressOfBridge(), row.bridge);
        network.removeContainer("node0");
        EXPECT_EQ(addressOfBridge(), row.bridge);
      }
    });
  }
}

}  // namespace talos::cluster
