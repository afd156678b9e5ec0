// etcd of three control-plane nodes, in containers: one cluster, whichever node bootstraps it;
// members that leave and come back; a snapshot.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <regex>
#include <thread>

#include "tests/cluster/etcd-nodes.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::Result;

void areWaiting(const EtcdNodes& nodes) {
  for (auto& node : nodes.all()) {
    ASSERT_TRUE(nodes.says(node, "phase: waiting")) << nodes.statusOf(node);
  }
}

// Bootstraps all nodes at the same time.
void bootstrapAll(const EtcdNodes& nodes) {
  std::vector<Result> results(nodes.all().size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < results.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = nodes.at(nodes[i], {"bootstrap"}, 240); });
    }
  }
  size_t made = 0;
  std::string errors;
  for (auto& result : results) {
    made += result.status == 0;
    errors += result.err;
  }
  EXPECT_GE(made, 1u) << errors;
  EXPECT_TRUE(nodes.haveVoters(nodes[0], results.size())) << nodes.members(nodes[0]) << errors;
  auto id = nodes.clusterId(nodes[0]);
  EXPECT_NE("", id);
  for (auto& node : nodes.all()) EXPECT_EQ(id, nodes.clusterId(node)) << errors;
}

// Catches: a cluster create that returns before etcd has a cluster; members that do not see each
// other; a second bootstrap that does anything; data that a leaving or removed member takes along;
// an invalid snapshot.
TEST(Etcd, ThreeNodesAreOneCluster) {
  EtcdNodes nodes("etcd", 3, {"--bootstrap=true"});
  auto& third = nodes[2];
  EXPECT_EQ(3u, nodes.voters(nodes[0])) << nodes.members(nodes[0]);
  for (auto& node : nodes.all()) EXPECT_TRUE(nodes.haveVoters(node, 3)) << nodes.members(node);
  auto id = nodes.clusterId(nodes[0]);
  EXPECT_NE("", id);
  EXPECT_EQ(id, nodes.clusterId(nodes[1]));
  EXPECT_EQ(id, nodes.clusterId(third));
  EXPECT_TRUE(
      eventually([&] { return contains(nodes.at(nodes[0], {"service", "etcd"}).out, "Running"); },
                 EtcdNodes::kTimeout));

  auto again = nodes.at(nodes[0], {"bootstrap"});
  EXPECT_EQ(0, again.status) << again.err;
  EXPECT_TRUE(contains(again.err, "was bootstrapped before")) << again.err;
  auto nobody = nodes.at(nodes[0], {"etcd", "remove-member", "nobody"});
  EXPECT_EQ(1, nobody.status) << nobody.err;

  auto forfeit = nodes.at(nodes[0], {"etcd", "forfeit-leadership"});
  EXPECT_EQ(0, forfeit.status) << forfeit.err;

  auto snapshot = nodes.cluster().folder() + "/etcd.db";
  auto saved = nodes.at(nodes[1], {"etcd", "snapshot", snapshot});
  EXPECT_EQ(0, saved.status) << saved.err;
  EXPECT_EQ(32u, std::filesystem::file_size(snapshot) % 512);

  auto leave = nodes.at(third, {"etcd", "leave"});
  EXPECT_EQ(0, leave.status) << leave.err;
  EXPECT_TRUE(
      contains(leave.err, "without etcd-master-3 it has 2 voters, which tolerate no failure"))
      << leave.err;
  EXPECT_TRUE(nodes.haveVoters(nodes[0], 2)) << nodes.members(nodes[0]);
  EXPECT_FALSE(contains(nodes.members(nodes[0]), "etcd-master-3"));
  nodes.cluster().ok({"cluster", "node", "reset", "etcd-master-3"}, 120);
  EXPECT_TRUE(nodes.haveVoters(nodes[0], 3)) << nodes.members(nodes[0]) << nodes.statusOf(third);
  EXPECT_EQ(id, nodes.clusterId(third));
}

// Catches: two clusters made at once; a node that keeps waiting after another node has made the
// cluster.
TEST(Etcd, BootstrapOnAllAtOnceMakesOneCluster) {
  EtcdNodes nodes("etcd", 3, {"--bootstrap=false"});
  areWaiting(nodes);
  bootstrapAll(nodes);
}

// A node of type `init` bootstraps its cluster without `talosctl bootstrap`. Catches: a node that
// waits for the command; a node that makes a second cluster when it is installed again; a type that
// differs from the config's.
TEST(Etcd, AnInitNodeMakesTheClusterByItself) {
  // The config names the shared address alone, where the others answer when it is reinstalled.
  EtcdNodes nodes("init", 3, {"--with-init-node", "--bootstrap=false", "--use-vip"});
  EXPECT_FALSE(contains(nodes.cluster().creation().err, "bootstrapping etcd"));
  EXPECT_TRUE(contains(nodes.at(nodes[0], {"get", "machinetype"}).out, " init\n"))
      << nodes.at(nodes[0], {"get", "machinetype"}).out;
  EXPECT_TRUE(contains(nodes.at(nodes[1], {"get", "machinetype"}).out, " controlplane\n"));
  ASSERT_TRUE(nodes.haveVoters(nodes[0], 3)) << nodes.members(nodes[0]);
  auto id = nodes.clusterId(nodes[0]);
  EXPECT_NE("", id);
  EXPECT_TRUE(nodes.put(nodes[1], "/init/kept", "yes"));
  auto member = [&] {
    std::smatch match;
    auto text = nodes.statusOf(nodes[0]);
    return std::regex_search(text, match, std::regex("member: \"?([0-9a-f]+)")) ? match[1].str()
                                                                                : std::string();
  };
  auto before = member();
  nodes.reinstall(nodes[0]);
  EXPECT_TRUE(
      eventually([&] { return !member().empty() && member() != before; }, EtcdNodes::kTimeout))
      << nodes.statusOf(nodes[0]);
  EXPECT_TRUE(nodes.haveVoters(nodes[0], 3)) << nodes.members(nodes[0]) << nodes.statusOf(nodes[0]);
  EXPECT_EQ(id, nodes.clusterId(nodes[0]));
  EXPECT_EQ("yes\n", nodes.get(nodes[0], "/init/kept"));
}

// Uses configs that do not name the other nodes, like those of `talosctl gen config`; $BOOTSTRAPS
// times.
TEST(EtcdStrangers, BootstrapOnAllAtOnceMakesOneClusterEachTime) {
  auto asked = getenv("BOOTSTRAPS");
  // The worker is not waited for: it gets its certificate at the shared address.
  EtcdNodes nodes("strangers", 3, {"--bootstrap=false", "--use-vip", "--workers", "1"});
  areWaiting(nodes);
  for (auto& node : nodes.all()) {
    ASSERT_TRUE(eventually(
        [&] {
          auto config = nodes.at(node, {"get", "etcdconfigs", "-o", "yaml"}).out;
          return contains(config, "shared:") && !contains(config, "peers:\n");
        },
        60))
        << nodes.at(node, {"get", "etcdconfigs", "-o", "yaml"}).out;
  }
  for (int round = asked == nullptr ? 1 : atoi(asked); round > 0 && !HasFailure(); --round) {
    SCOPED_TRACE(round);
    bootstrapAll(nodes);
    if (round == 1) break;
    // Kill the nodes together: killed one after another, they would join the remaining cluster
    // again.
    for (auto& node : nodes.all()) nodes.kill(node);
    for (auto& node : nodes.all()) nodes.erase(node);
    for (auto& node : nodes.all()) nodes.start(node);
    areWaiting(nodes);
  }
}

}  // namespace
}  // namespace talos
