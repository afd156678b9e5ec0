// Nodes that are upgraded again and again, and to a system without a network.
#include "tests/vm/upgrades.h"

namespace talos::vm {
namespace {

using harness::Cluster;
using harness::contains;

constexpr unsigned kUpgrades = 10;
constexpr const char* kGood = "v9.9.1";

}  // namespace

// Catches: a slot that is the other one's forever, room on BOOT or /var that is never freed, a view of an image
// that is left behind.
TEST_F(Upgrade, TenInARow) {
  Images images(folder);
  images.make(kGood, {});
  auto good = images.inRegistry(kGood);
  Cluster cluster("upgrades", upgradeFlags({"--with-bootloader"}), kComesUp);
  Machine node{cluster, "upgrades-master-1"};
  ASSERT_EQ(node.slot(), "A");
  auto config = cluster.ok({"read", "/system/state/config.yaml"});

  for (unsigned i = 0; i < kUpgrades; ++i) {
    SCOPED_TRACE("upgrade " + std::to_string(i + 1));
    auto result = node.upgradeTo(good, {"--preserve"});
    ASSERT_EQ(result.status, 0) << result.err << cluster.console(node.name);
    ASSERT_EQ(node.slot(), i % 2 == 0 ? "B" : "A");
    ASSERT_TRUE(contains(node.status(), "stage: done")) << node.status();
  }
  EXPECT_EQ(cluster.ok({"read", "/system/state/config.yaml"}), config);
}

// Catches: a system that cannot reach the network, and stays, or whose end nobody tells.
TEST_F(Upgrade, ToOneWithoutNetwork) {
  Images images(folder);
  images.make("v9.9.2", {"REMOVE=" + listOf("usr/bin/networkd")});
  auto mute = images.inRegistry("v9.9.2");
  Cluster cluster("upgrademute", upgradeFlags({"--with-bootloader"}), kComesUp);
  Machine node{cluster, "upgrademute-master-1"};
  ASSERT_EQ(node.slot(), "A");
  auto config = cluster.ok({"read", "/system/state/config.yaml"});
  // Its boot waits for networkd before it has STATE, so process 1 ends it and nobody can write down why.
  node.expectBackOn("A", node.upgradeTo(mute, {"--preserve", "--health-timeout", "60s"}),
                    "the system in slot B (v9.9.2) did not come up");
  EXPECT_EQ(cluster.ok({"read", "/system/state/config.yaml"}), config);
}

}  // namespace talos::vm
