// etcd of three control-plane nodes, in containers: one cluster, whoever asks for it; members that
// leave, come back, are lost; a snapshot and what is made of it.
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <filesystem>
#include <regex>
#include <thread>

#include "tests/harness/cluster.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;
using harness::eventually;
using harness::Result;
using harness::slurp;

constexpr double kPatience = 240;  // s; beside other tests

const std::vector<std::string> kNodes = {"10.5.0.2", "10.5.0.3", "10.5.0.4"};

struct Etcd : public testing::Test {
  ~Etcd() noexcept override {}

  static std::unique_ptr<Cluster> make(bool bootstrap) {
    return std::make_unique<Cluster>(
        "etcd",
        std::vector<std::string>{"--provisioner", "container", "--masters", "3", "--workers", "0",
                                 bootstrap ? "--bootstrap=true" : "--bootstrap=false"});
  }
  static Result at(const Cluster& cluster, const std::string& node,
                   std::vector<std::string> arguments, double deadline = 120) {
    std::vector<std::string> words = {"-e", cluster.endpoint(node), "-n", node};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return cluster.talosctl(words, deadline);
  }
  // How many rows of `etcd members` are voters that answer, as this node sees it.
  static size_t voters(const Cluster& cluster, const std::string& node = kNodes[0]) {
    auto shown = at(cluster, node, {"--timeout", "20s", "etcd", "members"});
    static const std::regex voter("\\bfalse +(true|false) +OK");
    return std::distance(std::sregex_iterator(shown.out.begin(), shown.out.end(), voter),
                         std::sregex_iterator());
  }
  static std::string members(const Cluster& cluster, const std::string& node = kNodes[0]) {
    auto shown = at(cluster, node, {"--timeout", "20s", "etcd", "members"});
    return shown.out + shown.err;
  }
  static std::string statusOf(const Cluster& cluster, const std::string& node) {
    auto shown = at(cluster, node, {"--timeout", "20s", "get", "etcdstatus", "-o", "yaml"});
    return shown.out + shown.err;
  }
  // The id of the cluster that a node is in, by its own word.
  static std::string clusterId(const Cluster& cluster, const std::string& node) {
    auto shown = at(cluster, node, {"--timeout", "20s", "etcd", "status", "-o", "json"});
    std::smatch match;
    static const std::regex id("\"clusterId\": *\"?([0-9]+)");
    return std::regex_search(shown.out, match, id) ? match[1].str() : std::string();
  }
};

// Catches: a cluster create that returns before there is a cluster; members that do not see each
// other; a second bootstrap that does anything; data that a leaving or removed member takes along;
// a snapshot that cannot be recovered from.
TEST_F(Etcd, ThreeNodesAreOneCluster) {
  auto cluster = make(true);
  EXPECT_EQ(3u, voters(*cluster)) << members(*cluster);
  for (auto& node : kNodes) {
    EXPECT_TRUE(eventually([&] { return voters(*cluster, node) == 3; }, kPatience))
        << members(*cluster, node);
  }
  auto id = clusterId(*cluster, kNodes[0]);
  EXPECT_NE("", id);
  EXPECT_EQ(id, clusterId(*cluster, kNodes[1]));
  EXPECT_EQ(id, clusterId(*cluster, kNodes[2]));
  EXPECT_TRUE(eventually(
      [&] { return contains(at(*cluster, kNodes[0], {"service", "etcd"}).out, "Running"); },
      kPatience));

  auto again = at(*cluster, kNodes[0], {"bootstrap"});
  EXPECT_EQ(0, again.status) << again.err;
  EXPECT_TRUE(contains(again.err, "was bootstrapped before")) << again.err;
  auto worker = cluster->talosctl({"-n", kNodes[0], "etcd", "remove-member", "nobody"}, 120);
  EXPECT_EQ(1, worker.status) << worker.err;

  auto forfeit = at(*cluster, kNodes[0], {"etcd", "forfeit-leadership"});
  EXPECT_EQ(0, forfeit.status) << forfeit.err;

  auto snapshot = cluster->folder() + "/etcd.db";
  auto saved = at(*cluster, kNodes[1], {"etcd", "snapshot", snapshot});
  EXPECT_EQ(0, saved.status) << saved.err;
  EXPECT_EQ(32u, std::filesystem::file_size(snapshot) % 512);

  auto leave = at(*cluster, kNodes[2], {"etcd", "leave"}, 180);
  EXPECT_EQ(0, leave.status) << leave.err;
  EXPECT_TRUE(
      contains(leave.err, "without etcd-master-3 it has 2 voters, which tolerate no failure"))
      << leave.err;
  EXPECT_TRUE(eventually([&] { return voters(*cluster) == 2; }, kPatience)) << members(*cluster);
  EXPECT_FALSE(contains(members(*cluster), "etcd-master-3"));
  auto rebooted = cluster->talosctl({"cluster", "node", "reset", "etcd-master-3"}, 120);
  EXPECT_EQ(0, rebooted.status) << rebooted.err;
  EXPECT_TRUE(eventually([&] { return voters(*cluster) == 3; }, kPatience))
      << members(*cluster) << statusOf(*cluster, kNodes[2]);
  EXPECT_EQ(id, clusterId(*cluster, kNodes[2]));
}

// Catches: two clusters made at once; a node that goes on waiting when another has made it.
TEST_F(Etcd, BootstrapOnAllAtOnceMakesOneCluster) {
  auto cluster = make(false);
  for (auto& node : kNodes) {
    EXPECT_TRUE(eventually(
        [&] { return contains(at(*cluster, node, {"service", "etcd"}).out, "Preparing"); },
        kPatience));
  }
  std::vector<Result> results(kNodes.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kNodes.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = at(*cluster, kNodes[i], {"bootstrap"}, 240); });
    }
  }
  size_t made = 0;
  std::string words;
  for (auto& result : results) {
    made += result.status == 0;
    words += result.err;
  }
  EXPECT_GE(made, 1u) << words;
  EXPECT_TRUE(eventually([&] { return voters(*cluster) == 3; }, kPatience))
      << members(*cluster) << words;
  auto id = clusterId(*cluster, kNodes[0]);
  EXPECT_NE("", id);
  for (auto& node : kNodes) EXPECT_EQ(id, clusterId(*cluster, node)) << words;
}

}  // namespace
}  // namespace talos
