// Two of three control-plane nodes are lost for good, in containers: the remaining node, and the
// data that a snapshot brings back.
#include <gtest/gtest.h>

#include <filesystem>
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

// Encrypted snapshots every ten seconds, of the second node or else of the first.
class BackupSeries {
 public:
  explicit BackupSeries(const EtcdNodes& nodes)
      : folder(nodes.cluster().folder()), running(command(nodes)) {}

  // The first of them, read with the key of its owner: a plain snapshot, and its signature.
  std::string decryptFirst() {
    auto saved = [](auto& out, auto&) { return contains(out, "etcd snapshot saved to \""); };
    EXPECT_TRUE(running.waitFor(saved, EtcdNodes::kTimeout)) << running.err();
    auto from = running.out().find('"') + 1;
    auto name = running.out().substr(from, running.out().find('"', from) - from);
    auto decrypt = harness::run({"openssl", "cms", "-decrypt", "-binary", "-inform", "DER", "-in",
                                 name, "-inkey", folder + "/key.pem", "-out", folder + "/etcd.db"});
    EXPECT_EQ(0, decrypt.status) << decrypt.err;
    write(folder + "/etcd.db.sig", slurp(name + ".sig"));
    return folder + "/etcd.db";
  }

  // Catches: a series that ends with the first failure, or of which all files stay.
  void goOnWithout(const EtcdNode& node) {
    auto lost = node.address + ": no snapshot: ";
    EXPECT_TRUE(running.waitFor(
        [&](auto& out, auto& err) {
          return contains(err, lost) && harness::lines(out).size() >= 3;
        },
        EtcdNodes::kTimeout))
        << running.out() << running.err();
    EXPECT_EQ(0, running.interrupt(EtcdNodes::kTimeout));
    size_t files = 0;
    for (auto& entry : std::filesystem::directory_iterator(folder + "/backups")) {
      EXPECT_TRUE(contains(entry.path().string(), ".snapshot.cms")) << entry.path();
      ++files;
    }
    EXPECT_EQ(4u, files) << "two, and their signatures";
  }

 private:
  std::string folder;
  harness::Background running;

  std::vector<std::string> command(const EtcdNodes& nodes) const {
    auto made = harness::run({"openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-keyout",
                              folder + "/key.pem", "-out", folder + "/certificate.pem", "-subj",
                              "/CN=backup"});
    EXPECT_EQ(0, made.status) << made.err;
    std::filesystem::create_directory(folder + "/backups");
    return nodes.cluster().command({"-n", nodes[1].address + "," + nodes[0].address, "--timeout",
                                    "10s", "etcd", "snapshot", folder + "/backups", "--every",
                                    "10s", "--keep", "2", "--encrypt-to",
                                    folder + "/certificate.pem"});
  }
};

// `cluster recover` of these nodes, through whichever of them is up.
harness::Result recover(const EtcdNodes& nodes, const std::vector<const EtcdNode*>& named,
                        const std::string& snapshot, std::vector<std::string> flags) {
  std::string list, endpoints;
  for (auto* node : named) list += (list.empty() ? "" : ",") + node->address;
  for (auto& node : nodes.all()) {
    endpoints += (endpoints.empty() ? "" : ",") + nodes.cluster().endpoint(node.address);
  }
  std::vector<std::string> arguments = {"-e",      endpoints, "-n",    list,
                                        "cluster", "recover", snapshot};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return nodes.cluster().talosctl(arguments, EtcdNodes::kTimeout * 3);
}

}  // namespace

// Catches: data that a recovery loses; a cluster without a quorum that is erased by its operator's
// commands, or hangs them; a bad snapshot that a node keeps trying, or whose remains prevent the
// try of another snapshot.
TEST(EtcdRecovery, TwoOfThreeAreLostAndASnapshotBringsTheDataBack) {
  EtcdNodes nodes("recovery", 3, {"--bootstrap=true"});
  auto &first = nodes[0], &second = nodes[1], &third = nodes[2];
  ASSERT_TRUE(nodes.haveVoters(first, 3)) << nodes.members(first);
  auto id = nodes.clusterId(first);
  ASSERT_TRUE(nodes.put(first, "/before", "the snapshot"));
  auto token = nodes.at(first, {"token", "create"});
  ASSERT_EQ(0, token.status) << token.err;
  BackupSeries backups(nodes);
  auto snapshot = backups.decryptFirst();
  ASSERT_TRUE(nodes.put(first, "/after", "it"));

  auto working = recover(nodes, {&first, &second, &third}, snapshot, {"--yes", "--force"});
  EXPECT_EQ(1, working.status);
  EXPECT_TRUE(
      contains(working.err, first.address + " is a member of a cluster that has its quorum"))
      << working.err;

  nodes.kill(second);
  nodes.kill(third);
  backups.goOnWithout(second);
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

  // They come back empty, as new machines would.
  for (auto node : {&second, &third}) {
    nodes.erase(*node);
    nodes.start(*node);
    ASSERT_TRUE(nodes.says(*node, "phase: waiting")) << nodes.statusOf(*node);
  }

  auto bytes = slurp(snapshot);
  ASSERT_GT(bytes.size(), 8192u);
  auto refused = [&](const std::string& content, std::vector<std::string> flags,
                     const std::string& error) {
    auto bad = nodes.cluster().folder() + "/bad.db";
    write(bad, content);
    std::vector<std::string> arguments = {"bootstrap", "--recover-from", bad, "--without",
                                          first.address + "," + third.address};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    auto result = nodes.at(second, arguments);
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
  EXPECT_TRUE(nodes.says(second, "phase: waiting")) << nodes.statusOf(second);

  // One node is not named: it might have the other half of the quorum.
  auto forgotten = recover(nodes, {&first, &second}, snapshot, {"--yes"});
  EXPECT_EQ(1, forgotten.status);
  EXPECT_TRUE(contains(forgotten.err, third.name + " (" + third.address +
                                          ") is a member of the "
                                          "cluster and not among the nodes"))
      << forgotten.err;
  // A whole snapshot of unknown origin, with another snapshot's signature.
  auto forged = nodes.cluster().folder() + "/bad.db";
  auto refusedForged = [&](std::vector<std::string> flags, const std::string& error) {
    auto result = recover(nodes, {&first, &second, &third}, forged, flags);
    EXPECT_EQ(1, result.status) << error;
    EXPECT_TRUE(contains(result.err, error)) << result.err;
  };
  auto other = nodes.at(first, {"etcd", "snapshot", forged});
  ASSERT_EQ(0, other.status) << other.err;
  std::filesystem::remove(forged + ".sig");
  refusedForged({"--yes"}, "cannot read the signature of the snapshot");
  refusedForged({"--yes", "--signature", snapshot + ".sig"},
                "the signature is of another snapshot");
  write(forged, damaged);
  refusedForged({"--yes", "--unsigned"}, "the snapshot is damaged");
  auto planned = recover(nodes, {&first, &second, &third}, snapshot, {"--dry-run"});
  EXPECT_EQ(0, planned.status) << planned.err;
  EXPECT_TRUE(contains(planned.err, "newer than the snapshot")) << planned.err;
  EXPECT_TRUE(nodes.says(first, "phase: member")) << "something was changed";

  auto recovered = recover(nodes, {&first, &second, &third}, snapshot, {"--yes"});
  ASSERT_EQ(0, recovered.status) << recovered.err;
  EXPECT_TRUE(contains(recovered.out, "etcd is recovered: 3 voters")) << recovered.out;
  for (auto& node : nodes.all()) {
    EXPECT_TRUE(nodes.haveVoters(node, 3)) << nodes.members(node) << nodes.statusOf(node);
    EXPECT_EQ("the snapshot\n", nodes.get(node, "/before"));
    EXPECT_EQ("", nodes.get(node, "/after"));
  }
  auto tokens = nodes.at(first, {"token", "list"});
  EXPECT_TRUE(contains(tokens.out, "revoked (recovery)")) << tokens.out << tokens.err;
  EXPECT_FALSE(contains(tokens.out, "unused")) << tokens.out;
  EXPECT_NE(id, nodes.clusterId(first)) << "members of the old one would meet the new one";
}

}  // namespace talos
