// The ingress firewall of a node, from the documents of its config to the packet filter of its
// kernel, which nft reads. The node is a container, whose network namespace has a filter that is
// separate from the host's.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;

constexpr double kBoot = 240, kChange = 60;  // s; beside other tests

// Opens the machine API to the cluster's network, from which the calls of this test arrive.
constexpr const char* kRule = R"(
---
apiVersion: v1alpha1
kind: NetworkRuleConfig
name: api
portSelector: {ports: [50000], protocol: tcp}
ingress: [{subnet: 10.5.0.0/24}]
)";

std::string defaultAction(const std::string& ingress) {
  return "\n---\napiVersion: v1alpha1\nkind: NetworkDefaultActionConfig\ningress: " + ingress +
         "\n";
}

struct IngressFirewall : public ::testing::Test {
  ~IngressFirewall() noexcept override {}
  Cluster cluster{"firewall", {"--provisioner", "container", "--masters", "1", "--workers", "0"}};

  std::string console() const { return cluster.console("firewall-master-1"); }
  // Returns the firewall's table in the node's kernel; empty if there is no such table.
  std::string table() const {
    auto place = "--net=/proc/" + std::to_string(cluster.process("firewall-master-1")) + "/ns/net";
    auto listed = harness::run({"nsenter", place, "nft", "list", "table", "inet", "talos"}, 30);
    if (listed.status == 0) return listed.out;
    EXPECT_TRUE(contains(listed.err, "Error: No such file or directory")) << listed.err;
    return "";
  }
  // Applies a config without a reboot. Returns talosctl's sentence about it.
  std::string apply(const std::string& config) const {
    auto file = cluster.folder() + "/config.yaml";
    std::ofstream(file, std::ios::trunc) << config;
    auto applied = cluster.talosctl({"apply-config", "--mode=no-reboot", "-f", file});
    EXPECT_EQ(applied.status, 0) << applied.err << console();
    return applied.err;
  }
  // Checks that the kernel has a table with these parts, or none if there are no parts: at once if
  // the node says that its config is in effect; on a busy host it may say that it is not yet.
  void expectTable(const std::string& said, const std::vector<std::string>& parts) const {
    std::string rules;
    auto isAsWanted = [&] {
      rules = table();
      for (auto& part : parts) {
        if (!contains(rules, part)) return false;
      }
      return !parts.empty() || rules.empty();
    };
    if (contains(said, "applied: in effect, without a reboot")) {
      EXPECT_TRUE(isAsWanted()) << said << rules;
    } else {
      EXPECT_TRUE(contains(said, "the rules of the firewall")) << said;
      EXPECT_TRUE(eventually(isAsWanted, kChange)) << said << rules;
    }
  }
};

// Catches: "in effect" before the kernel has the rules; a rule or a default action that is lost
// between the config and the kernel, or stays there without its document; a node that a rule for
// its API cuts off.
TEST_F(IngressFirewall, OfTheConfigIsInTheKernelWhenTheNodeAnswers) {
  ASSERT_TRUE(eventually([&] { return cluster.booted(); }, kBoot)) << console();
  auto config = cluster.ok({"read", "/system/state/config.yaml"});
  EXPECT_EQ(table(), "");
  auto said = apply(config + defaultAction("block") + kRule);
  expectTable(said, {"policy drop", "\"tcp dport 50000 jump rule-0 for api\"",
                     "\"ct state new tcp drop\"", "\"ip saddr 10.5.0.0/24 accept\""});
  auto shown = cluster.ok({"get", "firewall"});
  EXPECT_TRUE(contains(shown, "block")) << shown;
  said = apply(config + defaultAction("accept") + kRule);
  expectTable(said, {"policy accept", "\"ip saddr 10.5.0.0/24 return\""});
  said = apply(config);
  expectTable(said, {});
}

}  // namespace
}  // namespace talos
