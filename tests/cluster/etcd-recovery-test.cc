// Two of three control-plane nodes are lost for good, in containers: what is left, and what a
// snapshot brings back.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cluster/etcd-nodes.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::slurp;

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace

// Catches: data that a recovery loses; a cluster without a quorum that is erased by its operator's
// commands, or hangs them; a bad snapshot that a node keeps trying, or that leaves something behind
// over which no other one can be tried.
TEST(EtcdRecovery, TwoOfThreeAreLostAndASnapshotBringsTheDataBack) {
  EtcdNodes nodes("recovery", 3, {"--bootstrap=true"});
  auto &first = nodes[0], &second = nodes[1], &third = nodes[2];
  ASSERT_TRUE(nodes.haveVoters(first, 3)) << nodes.members(first);
  auto id = nodes.clusterId(first);
  ASSERT_TRUE(nodes.put(first, "/before", "the snapshot"));
  auto snapshot = nodes.cluster().folder() + "/etcd.db";
  auto saved = nodes.at(second, {"etcd", "snapshot", snapshot});
  ASSERT_EQ(0, saved.status) << saved.err;
  ASSERT_TRUE(nodes.put(first, "/after", "it"));

  nodes.kill(second);
  nodes.kill(third);
  ASSERT_TRUE(nodes.says(first, "tolerates: 0")) << nodes.statusOf(first);
  EXPECT_TRUE(eventually([&] { return !nodes.put(first, "/lost", "x"); }, EtcdNodes::kTimeout));
  auto members = nodes.at(first, {"--timeout", "20s", "etcd", "members"});
  EXPECT_TRUE(contains(members.out + members.err, "no quorum")) << members.out << members.err;
  auto early = nodes.at(first, {"bootstrap", "--recover-from", snapshot});
  EXPECT_EQ(1, early.status);
  EXPECT_TRUE(contains(early.err,
                       "the snapshot was not restored: this node is a member of a "
                       "cluster, and has its data"))
      << early.err;

  // They come back empty, which the last one cannot help; then as docs/etcd.md says.
  for (auto node : {&second, &third}) {
    nodes.erase(*node);
    nodes.start(*node);
  }
  nodes.reinstall(first);
  for (auto& node : nodes.all()) {
    ASSERT_TRUE(nodes.says(node, "phase: waiting")) << nodes.statusOf(node);
  }

  auto bytes = slurp(snapshot);
  ASSERT_GT(bytes.size(), 8192u);
  auto refused = [&](const std::string& content, std::vector<std::string> flags,
                     const std::string& error) {
    auto bad = nodes.cluster().folder() + "/bad.db";
    write(bad, content);
    std::vector<std::string> arguments = {"bootstrap", "--recover-from", bad};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    auto result = nodes.at(first, arguments);
    EXPECT_EQ(1, result.status) << error;
    EXPECT_TRUE(contains(result.err, error)) << result.err;
  };
  auto damaged = bytes;
  damaged[bytes.size() / 2] ^= 1;
  refused(damaged, {}, "the snapshot is damaged: its SHA-256 is not the one behind it");
  refused(bytes.substr(0, bytes.size() - 100), {}, "it was cut off, or is not a snapshot of etcd");
  refused("not a snapshot", {}, "the snapshot has 14 bytes, which is too short");
  // An error that only etcd's own tool finds.
  auto hollow = bytes.substr(0, 24) + std::string(65536 - 24, '\0');
  refused(hollow, {"--recover-skip-hash-check"},
          "cannot restore the snapshot: etcdutl exited with status 2: failed to open database; "
          "nothing was changed, and another one can be tried");
  EXPECT_TRUE(nodes.says(first, "phase: waiting")) << nodes.statusOf(first);

  auto recovered = nodes.at(first, {"bootstrap", "--recover-from", snapshot});
  ASSERT_EQ(0, recovered.status) << recovered.err;
  for (auto& node : nodes.all()) {
    EXPECT_TRUE(nodes.haveVoters(node, 3)) << nodes.members(node) << nodes.statusOf(node);
    EXPECT_EQ("the snapshot\n", nodes.get(node, "/before"));
    EXPECT_EQ("", nodes.get(node, "/after"));
  }
  EXPECT_NE(id, nodes.clusterId(first)) << "members of the old one would meet the new one";
}

}  // namespace talos
