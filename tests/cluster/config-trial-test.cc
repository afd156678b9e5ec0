// Changes of the config that would strand a node, on a control-plane node in a container with etcd:
// the last good config comes back by itself, and a good change is confirmed. With trials of a
// minute.
#include <gtest/gtest.h>
#include <kj/encoding.h>

#include <chrono>
#include <thread>

#include "common/tls/pki.h"
#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr double kBoot = 240, kBack = 300;  // s; beside other tests
constexpr const char *kNode = "trial-master-1", *kBootId = "/proc/sys/kernel/random/boot_id";
constexpr const char* kAddress = "10.5.0.2";
constexpr const char* kNoCall = "no client has called the node";
constexpr const char* kDisk = "/system/state/config.yaml";

struct ConfigTrial : public ::testing::Test {
  ~ConfigTrial() noexcept override {}
  Cluster cluster{
      "trial",
      {"--provisioner", "container", "--masters", "1", "--workers", "0", "--bootstrap=true"}};
  std::string before;

  std::string console() const { return cluster.console(kNode); }
  std::string status() const { return cluster.talosctl({"--timeout", "5s", "status"}, 20).out; }
  void begin() {
    ASSERT_TRUE(eventually([&] { return cluster.booted(); }, kBoot)) << console();
    ASSERT_TRUE(eventually([&] { return cluster.etcdLeader({kAddress}) == kAddress; }, kBoot))
        << console();
    before = cluster.ok({"read", kDisk});
  }
  harness::Result patch(const std::string& text, std::vector<std::string> flags) const {
    std::vector<std::string> command = {"patch", "mc", "-p", text};
    command.insert(command.end(), flags.begin(), flags.end());
    return cluster.talosctl(command, 400);
  }
  // Applies a change of which the node recovers by itself, with this in the reason.
  void expectBack(const std::string& text, const std::string& mode, const std::string& reason) {
    SCOPED_TRACE(text);
    auto seen = console().size();
    auto result = patch(text, {"--mode=" + mode, "--trial-timeout=1m"});
    bool follows = reason == kNoCall;  // otherwise talosctl ends when it has reached the node
    EXPECT_EQ(result.status, follows ? 1 : 0) << result.err;
    // The answer of a node that a change cuts off may get lost.
    if (!contains(result.err, "the answer was lost")) {
      EXPECT_TRUE(contains(result.err, "on trial for at most 1m0s: goes back unless"))
          << result.err;
    }
    if (follows) {
      EXPECT_TRUE(contains(result.err, "the previous config")) << result.err;
    }
    std::string now;
    ASSERT_TRUE(eventually(
        [&] { return contains(now = status(), "the last change of the config went back: "); },
        kBack, 1))
        << now << console().substr(seen);
    EXPECT_TRUE(contains(now, reason)) << now;
    EXPECT_EQ(cluster.ok({"read", kDisk}), before);
    EXPECT_TRUE(contains(console().substr(seen), "the previous config is back: "));
    ASSERT_TRUE(eventually([&] { return cluster.booted(); }, kBoot)) << console();
  }
  void expectConfirmed(const std::string& text, const std::string& mode) {
    SCOPED_TRACE(text);
    auto boot = cluster.ok({"read", kBootId});
    auto result = patch(text, {"--mode=" + mode, "--wait"});
    EXPECT_EQ(result.status, 0) << result.err << status() << console();
    EXPECT_TRUE(contains(result.err, "confirmed: the config stays")) << result.err;
    EXPECT_FALSE(contains(status(), "on trial")) << status();
    if (mode == "no-reboot") EXPECT_EQ(cluster.ok({"read", kBootId}), boot);
  }
};

// A CA that no client of the cluster knows.
std::string anotherCa() {
  auto pair = pki::makeAuthority({.organization = "talos"});
  return kj::str("machine: {ca: {crt: ", kj::encodeBase64(pair.certificate.asBytes()),
                 ", key: ", kj::encodeBase64(pair.key.bytes()), "}}")
      .cStr();
}

// Catches: a good change that is not confirmed, or is confirmed only at the end of its time.
TEST_F(ConfigTrial, AGoodChangeIsConfirmed) {
  begin();
  struct {
    const char *text, *mode;
  } rows[] = {
      {"machine: {sysctls: {net.ipv4.ip_default_ttl: \"77\"}}", "no-reboot"},
      {"machine: {network: {extraHostEntries: [{ip: 10.5.0.9, aliases: [far]}]}}", "no-reboot"},
      {"machine: {nodeLabels: {example.com/a: b}}", "no-reboot"},
      {"machine: {env: {NEW: \"1\"}}", "reboot"},
  };
  for (auto& row : rows) expectConfirmed(row.text, row.mode);
  EXPECT_TRUE(contains(cluster.ok({"read", kDisk}), "NEW: \"1\""));
}

// Catches: a harmful config that stays: a closed firewall, a wrong route, another CA. A container
// keeps the address that its launcher gave it.
TEST_F(ConfigTrial, AChangeThatCutsTheNodeOffComesBack) {
  begin();
  std::string rows[] = {
      "apiVersion: v1alpha1\nkind: NetworkDefaultActionConfig\ningress: block\n",
      // The way to the host from which this test calls.
      "machine: {network: {interfaces: [{interface: eth0, ignore: false, cidr: 10.5.0.2/24, "
      "routes: [{network: 10.5.0.1/32, gateway: 10.5.0.77}]}]}}",
      anotherCa()};
  for (auto& row : rows) {
    expectBack(row, "no-reboot", kNoCall);
    if (HasFatalFailure()) return;
  }
}

// Catches: an etcd that cannot start with a config that stays, with a reboot and without.
TEST_F(ConfigTrial, AChangeThatStopsEtcdComesBack) {
  begin();
  const std::string etcd = "cluster: {etcd: {extraArgs: {no-such-argument: \"1\"}}}\n";
  // An etcd that failed a moment ago is no duty of the next change.
  auto settle = [&] {
    if (HasFatalFailure()) return false;
    EXPECT_TRUE(eventually([&] { return cluster.etcdLeader({kAddress}) == kAddress; }, kBoot));
    std::this_thread::sleep_for(std::chrono::seconds(40));
    return !HasFailure();
  };
  expectBack(etcd, "no-reboot", "etcd");
  if (!settle()) return;
  // The running etcd keeps its address, and would not start at the next boot.
  expectBack("cluster: {etcd: {advertisedSubnets: [192.0.2.0/24]}}", "no-reboot",
             "service etcd waits for an address");
  if (!settle()) return;
  expectBack(etcd + "machine: {env: {NEW: \"1\"}}", "reboot", "etcd");
}

}  // namespace
}  // namespace talos
