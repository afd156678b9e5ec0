// The users' lines "Recovering from Node Boot Failures": a config with which a node does not finish
// its boot is replaced by --on-reboot and `talosctl reboot`.
#include <gtest/gtest.h>

#include <regex>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr double kBoot = 240;  // s; beside other tests

// The endpoint leads nowhere, and containerd, for which the boot waits, does not start.
constexpr const char* kWrong = R"(
cluster: {controlPlane: {endpoint: 'https://10.5.0.77:6443'}}
machine:
  files:
    - {path: /var/cri/conf.d/broken.toml, op: create, content: '[plugins'}
)";
constexpr const char* kRight = R"([
  {"op": "replace", "path": "/cluster/controlPlane/endpoint", "value": "https://10.5.0.2:6443"},
  {"op": "replace", "path": "/machine/files/0/op", "value": "overwrite"},
  {"op": "replace", "path": "/machine/files/0/content", "value": "[metrics]\n"}])";

struct FailedBoot : public ::testing::Test {
  ~FailedBoot() noexcept override {}
  Cluster cluster{"failedboot", {"--provisioner", "container", "--workers", "0"}};

  std::string console() const { return cluster.console("failedboot-master-1"); }
  std::string onDisk() const { return cluster.ok({"read", "/system/state/config.yaml"}); }
  std::string bootId() const {
    return cluster.talosctl({"--timeout", "5s", "read", "/proc/sys/kernel/random/boot_id"}, 20).out;
  }
  harness::Result patch(const std::string& mode, const std::string& text) const {
    return cluster.talosctl({"patch", "mc", mode, "-p", text}, 60);
  }
  // Into another boot, which is as far as its services.
  void reboot() const {
    auto before = bootId();
    auto asked = cluster.talosctl({"reboot", "--wait=false"}, 60);
    ASSERT_EQ(asked.status, 0) << asked.err;
    ASSERT_TRUE(eventually(
        [&] {
          auto now = bootId();
          return !now.empty() && now != before;
        },
        kBoot, 0.5))
        << console();
  }
};

// Catches: a boot that waits for a service and locks the config meanwhile; a reboot that waits for
// the end of this boot; a staged config that is lost when the boot is retried from its start.
TEST_F(FailedBoot, IsRepairedByAConfigForTheNextBoot) {
  ASSERT_TRUE(eventually([&] { return cluster.booted(); }, kBoot));
  auto staged = patch("--on-reboot", kWrong);
  ASSERT_EQ(staged.status, 0) << staged.err;
  EXPECT_FALSE(contains(cluster.ok({"get", "mc", "-o", "yaml"}), "10.5.0.77"));
  ASSERT_NO_FATAL_FAILURE(reboot());
  ASSERT_TRUE(eventually(
      [&] { return contains(cluster.talosctl({"logs", "cri"}).out, "broken.toml"); }, kBoot))
      << cluster.talosctl({"service", "cri"}).out << cluster.talosctl({"logs", "cri"}).out;
  EXPECT_FALSE(cluster.booted());

  for (auto mode : {"--mode=reboot", "--immediate"}) {
    auto refused = patch(mode, kRight);
    EXPECT_EQ(refused.status, 1) << mode << refused.out;
    EXPECT_TRUE(contains(refused.err, "the sequence boot is running; the config was not applied"))
        << refused.err;
    EXPECT_TRUE(contains(refused.err, "use --on-reboot and reboot the node")) << refused.err;
  }
  EXPECT_TRUE(contains(onDisk(), "10.5.0.77"));
  auto repaired = patch("--on-reboot", kRight);
  ASSERT_EQ(repaired.status, 0) << repaired.err;
  EXPECT_FALSE(contains(onDisk(), "10.5.0.77"));
  // A new brain runs the boot again.
  auto brain = cluster.servicePids()["machined"];
  cluster.talosctl({"service", "machined", "kill", "--signal", "KILL"});
  ASSERT_TRUE(eventually(
      [&] {
        auto now = cluster.servicePids();
        return now.count("machined") == 1 && now["machined"] != brain;
      },
      60));
  EXPECT_TRUE(contains(cluster.ok({"get", "mc", "-o", "yaml"}), "10.5.0.77"));
  EXPECT_FALSE(cluster.booted());
  EXPECT_FALSE(contains(onDisk(), "10.5.0.77")) << "the new brain wrote the running config";
  ASSERT_NO_FATAL_FAILURE(reboot());
  EXPECT_TRUE(eventually([&] { return cluster.booted(); }, kBoot)) << console();
  auto running = cluster.ok({"get", "mc", "-o", "yaml"});
  EXPECT_TRUE(contains(running, "https://10.5.0.2:6443")) << running;
  EXPECT_FALSE(contains(running, "10.5.0.77")) << running;
}

}  // namespace
}  // namespace talos
