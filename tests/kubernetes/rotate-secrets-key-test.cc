// talosctl rotate-ca --secrets-key on three control planes and a worker: under a client that writes
// and reads Secrets at every API server, cut off in each phase, with a node that loses its power.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/kubernetes/secrets-user.h"

namespace talos {
namespace {

using harness::Background;
using harness::contains;
using harness::eventually;
using harness::Result;
using harness::slurp;
using testing::HasSubstr;

constexpr double kWholeRotation = 900;  // s; beside other tests

size_t countOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

struct RotateSecretsKey : public KubeHost {
  ~RotateSecretsKey() noexcept override {}
  std::unique_ptr<KubeCluster> cluster;

  std::string rootOf(const KubeNode& node) const {
    return "/proc/" + std::to_string(cluster->talos.process(node.name)) + "/root";
  }
  // A line of shell with $ETCD, the local etcd of the first node.
  Result etcd(const std::string& line) const {
    auto& node = cluster->nodes[0];
    auto pki = rootOf(node) + "/etc/kubernetes/pki/etcd/";
    auto call = "etcdctl --endpoints=https://127.0.0.1:2379 --cacert=" + pki +
                "ca.crt --cert=" + pki + "peer.crt --key=" + pki + "peer.key";
    return harness::run({"nsenter", "-t", std::to_string(cluster->talos.process(node.name)), "-n",
                         "sh", "-ec", "ETCD='" + call + "'; " + line},
                        60, {"ETCDCTL_API=3"});
  }
  std::vector<std::string> rotate() const {
    return cluster->talos.command({"rotate-ca", "--secrets-key", "--dry-run=false"});
  }
  // Kills talosctl after it prints the line `last`; before, cuts the power of the node `cut` after
  // the line `first`.
  void rotateUntil(const std::string& first, const KubeNode* cut, const std::string& last) const {
    Background run(rotate(), harness::Pace::kLineByLine);
    auto awaitLine = [&](const std::string& text) {
      EXPECT_TRUE(
          run.waitFor([&](auto&, auto& err) { return contains(err, text); }, kWholeRotation))
          << text << ": " << run.err();
    };
    awaitLine(first);
    if (cut != nullptr) {
      cluster->talos.ok({"cluster", "node", "kill", cut->name}, 120);
      cluster->talos.ok({"cluster", "node", "start", cut->name}, 120);
    }
    awaitLine(last);
  }
  Result rotateWhole() const {
    Result last;
    EXPECT_TRUE(eventually(
        [&] {
          last = harness::run(rotate(), kWholeRotation);
          return !contains(last.err, "not every node can be read");
        },
        kWholeRotation, 1));
    printf("%s", last.err.c_str());
    EXPECT_EQ(last.status, 0) << last.err;
    EXPECT_THAT(last.err, HasSubstr("> the key of Secrets is rotated"));
    return last;
  }
  std::string encryption(const KubeNode& node) const {
    return slurp(rootOf(node) + "/system/secrets/kubernetes/kube-apiserver/encryptionconfig.yaml");
  }
  // Behind "secret: ", the first one.
  std::string firstKey() const {
    auto text = encryption(cluster->nodes[0]);
    auto at = text.find("secret: ") + 8;
    return text.substr(at, text.find('\n', at) - at);
  }
  void checkOnly(const std::string& old) {
    auto stored = etcd("$ETCD get --prefix /registry/secrets/").out;
    auto secrets = countOf(stored, "/registry/secrets/");
    EXPECT_GT(secrets, 10u);
    EXPECT_EQ(countOf(stored, "k8s:enc:secretbox:v1:key-"), secrets);
    EXPECT_EQ(countOf(stored, "k8s:enc:"), secrets);
    for (auto& node : cluster->nodes) {
      if (!node.controlPlane) continue;
      EXPECT_FALSE(contains(encryption(node), old)) << node.name << " has the old key";
      EXPECT_FALSE(
          contains(cluster->talos.ok({"-n", node.address, "get", "mc", "-o", "yaml"}), old))
          << node.name;
    }
  }
};

}  // namespace

// Catches: an API server that cannot read Secrets that another has written, at any time; a run that
// does not find where an earlier run was killed; a Secret that stays under the old key; an API
// server that can still read with the old key; a call that no API server answers.
TEST_F(RotateSecretsKey, IsFinishedWhateverHappensAndEverySecretIsReadable) {
  cluster = std::make_unique<KubeCluster>("secretskey", 3, 1);
  cluster->awaitSystem();
  if (HasFailure()) return;
  auto& talos = cluster->talos;
  auto& nodes = cluster->nodes;
  cluster->ok({"create", "secret", "generic", "ghost", "--from-literal=v=old"});
  // Copies the Secret as etcd stores it, under the old key.
  auto stash = etcd(
      "$ETCD get --print-value-only /registry/secrets/default/ghost | head -c -1 | $ETCD put "
      "/stash");
  EXPECT_EQ(stash.status, 0) << stash.err;
  auto first = firstKey();
  auto plan = harness::run(talos.command({"rotate-ca", "--secrets-key"}), 120);
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("> drop: 10.5.0.4 (control plane) has the new key only"));
  EXPECT_EQ(firstKey(), first);

  SecretsUser user(*cluster);
  EXPECT_TRUE(eventually([&] { return user.done >= 3; }, 60));
  rotateUntil("", nullptr, "> accept: 10.5.0.2 reads");
  rotateUntil("> accept: 10.5.0.3 reads", nullptr, "> issue: 10.5.0.2 writes");
  rotateUntil("> present key", &nodes[2], "> writing Secrets again");
  rotateUntil("", nullptr, "> drop: 10.5.0.2 has");
  rotateWhole();
  auto second = firstKey();
  EXPECT_NE(first, second);
  checkOnly(first);
  // Objects under the old key cannot be read.
  auto put = etcd(
      "$ETCD get --print-value-only /stash | head -c -1 | "
      "$ETCD put /registry/secrets/default/returned");
  EXPECT_EQ(put.status, 0) << put.err;
  auto read = cluster->kubectl({"get", "secret", "returned"});
  EXPECT_NE(read.status, 0);
  EXPECT_THAT(read.err, HasSubstr("no matching prefix found"));
  EXPECT_EQ(etcd("$ETCD del /registry/secrets/default/returned").status, 0);
  EXPECT_EQ(cluster->ok({"get", "secret", "ghost", "-o", "jsonpath={.data.v}"}), "b2xk");

  // Rotates from one key of secretbox to another.
  rotateWhole();
  EXPECT_NE(firstKey(), second);
  checkOnly(second);
  user.checkStopped(20);
  cluster->awaitSystem();
}

}  // namespace talos
