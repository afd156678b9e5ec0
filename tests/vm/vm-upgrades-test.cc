// Nodes that are upgraded again and again, to a system without a network or without keys of its
// disks, and with encrypted partitions by UEFI.
#include <algorithm>
#include <filesystem>
#include <regex>

#include "tests/vm/upgrades.h"

namespace talos::vm {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr unsigned kUpgrades = 10;
constexpr const char *kGood = "v9.9.1", *kOlder = "v9.9.0",
                     *kBootId = "/proc/sys/kernel/random/boot_id";

class UpgradesTest : public Upgrade {
 protected:
  ~UpgradesTest() noexcept override {}

  // Both volumes are open, each by the key of slot 0.
  void expectOpen(Cluster& cluster) {
    for (auto label : {"STATE", "EPHEMERAL"}) {
      std::regex row(label + std::string(R"(\s+\d+\s+ready\s.*\sluks2\s+0\s)"));
      std::string last;
      EXPECT_TRUE(eventually(
          [&] {
            last = cluster.talosctl({"get", "volumestatus"}, 30).out;
            return std::regex_search(last, row);
          },
          kComesUp, 1))
          << label << " is not open:\n"
          << last;
    }
  }
};

}  // namespace

// Catches: a slot that stays the same forever, space on BOOT or /var that is never freed, a view of
// an image that is not removed.
TEST_F(UpgradesTest, TenInARow) {
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

// Catches: a system that cannot reach the network and stays, or whose end is not reported.
TEST_F(UpgradesTest, ToOneWithoutNetwork) {
  Images images(folder);
  images.make("v9.9.2", {"REMOVE=" + listOf("usr/bin/networkd")});
  auto mute = images.inRegistry("v9.9.2");
  Cluster cluster("upgrademute", upgradeFlags({"--with-bootloader"}), kComesUp);
  Machine node{cluster, "upgrademute-master-1"};
  ASSERT_EQ(node.slot(), "A");
  auto config = cluster.ok({"read", "/system/state/config.yaml"});
  node.expectBackOn("A", node.upgradeTo(mute, {"--preserve", "--health-timeout", "60s"}),
                    "the system in slot B (v9.9.2) was given up: its boot failed: ");
  EXPECT_TRUE(contains(node.status(), "networkd")) << node.status();
  EXPECT_EQ(cluster.ok({"read", "/system/state/config.yaml"}), config);
}

// Catches: a system that cannot open the partitions of its node, and stays, or cannot say so
// without them; a key that is lost with that.
TEST_F(UpgradesTest, ToOneThatOpensNoDisk) {
  Images images(folder);
  images.make("v9.9.2", {"TREE=" + ending("usr/libexec/talos/luks")});
  Cluster cluster("upgradelocked",
                  upgradeFlags({"--with-bootloader", "--encrypt-state", "--encrypt-ephemeral"}),
                  kComesUp);
  Machine node{cluster, "upgradelocked-master-1"};
  ASSERT_EQ(node.slot(), "A");
  expectOpen(cluster);
  node.expectBackOn(
      "A", node.upgradeTo(images.inRegistry("v9.9.2"), {"--preserve", "--health-timeout", "60s"}),
      "the system in slot B (v9.9.2) was given up: its boot failed: ");
  EXPECT_TRUE(contains(node.status(), "STATE")) << node.status();
  expectOpen(cluster);
}

// Catches: a survey that does not report a disk without room; a node that is changed although it
// cannot keep the image; an error that does not say how much space is missing.
TEST_F(UpgradesTest, OfANodeWithoutRoom) {
  Images images(folder);
  images.make(kGood, {});
  auto large = images.file(kGood);
  std::filesystem::resize_file(large, 600u << 20);  // EPHEMERAL has 520 MiB
  auto flags = upgradeFlags({"--with-bootloader", "--bootstrap"});
  *(std::find(flags.begin(), flags.end(), "--disk") + 1) = "1024";
  Cluster cluster("upgradefull", flags, kComesUp);
  Machine node{cluster, "upgradefull-master-1"};
  auto before = node.record();
  auto result = cluster.talosctl(
      {"-n", Cluster::kFirst, "upgrade-cluster", "--kubernetes=false", "--image", large, "--yes"},
      2 * kComesUp);
  EXPECT_EQ(result.status, 1) << result.out;
  for (auto said :
       {"/var has only ", "it cannot take the image: ",
        "EPHEMERAL (/var) has no room for the image: it needs ", "nothing was changed"}) {
    EXPECT_TRUE(contains(result.err, said)) << said << "\n" << result.err;
  }
  EXPECT_EQ(node.record(), before);
  EXPECT_EQ(node.slot(), "A");
}

// Catches: a node that stays on the system which has installed it, although its config names
// another; data that are lost by the upgrade; a node that upgrades itself at each boot.
TEST_F(UpgradesTest, AnotherReleaseAtTheInstallation) {
  Images images(folder);
  images.make(kGood, {});
  auto good = images.inRegistry(kGood);
  Cluster cluster("upgradeinstall",
                  upgradeFlags({"--with-bootloader", "--wait=false", "--install-image", good}),
                  kComesUp);
  Machine node{cluster, "upgradeinstall-master-1"};
  EXPECT_TRUE(eventually([&] { return contains(node.status(), "stage: done"); }, 2 * kComesUp, 1))
      << cluster.console(node.name);
  EXPECT_EQ(node.slot(), "B");
  EXPECT_TRUE(contains(node.status(), "image: " + good + "\n")) << node.status();
  EXPECT_TRUE(contains(node.status(), Images::digestOf(kGood))) << node.status();
  EXPECT_TRUE(contains(cluster.ok({"image", "list"}), "installer")) << "EPHEMERAL was emptied";
  auto state = cluster.ok({"list", "/system/state"});
  EXPECT_FALSE(contains(state, "install-image")) << state;
  auto before = node.record();
  EXPECT_TRUE(contains(before, "began: ")) << before;

  // An upgrade that the node begins by itself is reported as soon as the config is known, before
  // the boot is over, and would write another record.
  for (unsigned again = 0; again < 2; ++again) {
    auto boot = cluster.ok({"read", kBootId});
    cluster.ok({"reboot"}, kComesUp);
    EXPECT_TRUE(eventually([&] { return cluster.booted(); }, kComesUp, 1));
    EXPECT_NE(cluster.ok({"read", kBootId}), boot);
    EXPECT_EQ(node.record(), before);
    EXPECT_EQ(node.slot(), "B");
  }
}

// Catches: an image without a signature, or with a foreign one, that is accepted; a signature that
// is not found where cosign puts it, or that the node, with its own containerd and parser, cannot
// verify; a signed image older than a system that the node has run, and that is accepted.
TEST_F(UpgradesTest, ASignedImage) {
  Images images(folder);
  images.make(kGood, {});
  auto good = images.inRegistry(kGood);
  for (auto key : {"/own", "/other"}) {
    Images::must({"openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
                  "-out", folder + key});
  }
  auto pem = Images::must({"openssl", "pkey", "-in", folder + "/own", "-pubout"});
  pem = std::regex_replace(pem, std::regex("\n"), "\\n");
  Cluster cluster("upgradesigned", upgradeFlags({"--with-bootloader"}), kComesUp);
  Machine node{cluster, "upgradesigned-master-1"};
  ASSERT_EQ(node.slot(), "A");
  cluster.ok({"patch", "machineconfig", "--mode=no-reboot", "-p",
              R"([{"op": "add", "path": "/machine/install/imageKey", "value": ")" + pem + "\"}]"},
             kComesUp);

  auto unsignedOne = node.upgradeTo(good, {"--preserve"});
  EXPECT_NE(unsignedOne.status, 0);
  // The mirror has no signature, and after the mirror the node tries the registry itself, which
  // does not exist.
  EXPECT_TRUE(contains(unsignedOne.err, "cannot verify whether ghcr.io/talos/installer@sha256:"))
      << unsignedOne.err;
  images.sign(kGood, folder + "/other");
  auto wrong = node.upgradeTo(good, {"--preserve"});
  EXPECT_NE(wrong.status, 0);
  EXPECT_TRUE(contains(wrong.err, "(1) fits the key; nothing was written")) << wrong.err;
  EXPECT_TRUE(contains(node.status(), "stage: none")) << node.status();

  images.sign(kGood, folder + "/own");
  auto result = node.upgradeTo(good, {"--preserve"});
  EXPECT_EQ(result.status, 0) << result.err << cluster.console(node.name);
  EXPECT_EQ(node.slot(), "B");
  EXPECT_TRUE(contains(node.status(), Images::digestOf(kGood))) << node.status();

  // META has the version that the node has confirmed, and the installer reads the version of an
  // image.
  images.make(kOlder, {});
  auto older = images.inRegistry(kOlder);
  images.sign(kOlder, folder + "/own");
  auto refused = node.upgradeTo(older, {"--preserve"});
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(contains(refused.err, ": v9.9.0 is older than v9.9.1, which this node has run"))
      << refused.err;
  EXPECT_TRUE(contains(node.status(), Images::digestOf(kGood))) << node.status();
  EXPECT_EQ(node.upgradeTo(older, {"--preserve", "--force"}).status, 0);
  EXPECT_EQ(node.slot(), "A");
  EXPECT_NE(node.upgradeTo(older, {"--preserve"}).status, 0)
      << "the older system lowered the floor";
}

// Catches: an upgrade that UEFI's boot loader does not try or confirm, a new system that cannot
// open the partitions that the old system has encrypted.
TEST_F(UpgradesTest, OfAnEncryptedNodeByUefi) {
  Images images(folder);
  images.make(kGood, {});
  auto good = images.inRegistry(kGood);
  Cluster cluster("upgradeluks",
                  upgradeFlags({"--with-uefi", "--encrypt-state", "--encrypt-ephemeral"}),
                  kComesUp);
  Machine node{cluster, "upgradeluks-master-1"};
  ASSERT_EQ(node.slot(), "A");
  EXPECT_TRUE(contains(cluster.ok({"list", "/sys/firmware"}), "efi"));
  expectOpen(cluster);
  auto config = cluster.ok({"read", "/system/state/config.yaml"});

  auto result = node.upgradeTo(good, {"--preserve"});
  ASSERT_EQ(result.status, 0) << result.err << cluster.console(node.name);
  EXPECT_EQ(node.slot(), "B");
  EXPECT_TRUE(contains(node.status(), "stage: done")) << node.status();
  expectOpen(cluster);
  EXPECT_EQ(cluster.ok({"read", "/system/state/config.yaml"}), config);
  EXPECT_TRUE(contains(cluster.ok({"image", "list"}), "installer")) << "--preserve lost /var";

  // Confirmed: a reboot stays.
  cluster.ok({"reboot"}, kComesUp);
  EXPECT_EQ(node.slot(), "B");
}

}  // namespace talos::vm
