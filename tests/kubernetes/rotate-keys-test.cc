// talosctl rotate-ca --service-account-key, --aggregator-ca and --etcd-ca on three control planes
// and a worker: under a client of every API server, cut off in each phase, with nodes that lose
// their power.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/kubernetes/rotated-users.h"
#include "tests/kubernetes/secrets-user.h"

namespace talos {
namespace {

using harness::Background;
using harness::contains;
using harness::eventually;
using harness::Result;
using harness::slurp;
using testing::HasSubstr;
using testing::Not;

constexpr double kWholeRotation = 900;  // s; beside other tests

constexpr const char* kObjects = R"(apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
---
apiVersion: v1
kind: Secret
metadata: {name: legacy, annotations: {kubernetes.io/service-account.name: default}}
type: kubernetes.io/service-account-token
)";
size_t countOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

struct RotateKeys : public KubeHost {
  ~RotateKeys() noexcept override {}
  std::unique_ptr<KubeCluster> cluster;

  void create() {
    cluster = std::make_unique<KubeCluster>("rotatekeys", 3, 1);
    cluster->awaitSystem();
  }
  std::string at(const char* name) const { return cluster->talos.folder() + "/" + name; }
  std::string rootOf(const KubeNode& node) const {
    return "/proc/" + std::to_string(cluster->talos.process(node.name)) + "/root";
  }
  std::string secretFile(const KubeNode& node, const std::string& name) const {
    return slurp(rootOf(node) + "/system/secrets/kubernetes/kube-apiserver/" + name);
  }
  std::vector<std::string> rotate(const std::string& flag) const {
    return cluster->talos.command({"rotate-ca", flag, "--dry-run=false"});
  }
  // Kills talosctl after it prints the line `last`; before, cuts the power of the node `cut` after
  // the line `first`.
  void rotateUntil(const std::string& flag, const std::string& first, const KubeNode* cut,
                   const std::string& last) const {
    Background run(rotate(flag), harness::Pace::kLineByLine);
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
  // Runs a whole rotation; a run begins only with all nodes up.
  Result rotateWhole(const std::string& flag) const {
    Result last;
    EXPECT_TRUE(eventually(
        [&] {
          last = harness::run(rotate(flag), kWholeRotation);
          return !contains(last.err, "not every node can be read");
        },
        kWholeRotation, 1));
    printf("%s", last.err.c_str());
    fflush(stdout);
    return last;
  }
  void checkPlan(const std::string& flag, const std::string& line) const {
    auto plan = harness::run(cluster->talos.command({"rotate-ca", flag}), 120);
    EXPECT_EQ(plan.status, 0) << plan.err;
    EXPECT_THAT(plan.out, HasSubstr(line));
    EXPECT_THAT(plan.out, HasSubstr("nothing was changed"));
  }
  std::string configs() const {
    std::string all;
    for (auto& node : cluster->nodes) {
      if (!node.controlPlane) continue;
      all += cluster->talos.ok({"-n", node.address, "get", "mc", "-o", "yaml"});
    }
    return all;
  }

  Result asClient(const std::string& kubeconfig, const KubeNode& node) const {
    auto words = cluster->kubectlCommand(
        {"--server", "https://" + node.address + ":6443", "get", "secret", "legacy"});
    words[2] = kubeconfig;
    return cluster->in(cluster->segment(), words, 60);
  }
  // Returns the number of keys that the first API server publishes.
  size_t publishedKeys() const {
    return countOf(
        cluster->ok({"--server", "https://10.5.0.2:6443", "get", "--raw", "/openid/v1/jwks"}),
        "\"kid\"");
  }
  std::string legacyToken() const {
    return cluster->ok({"get", "secret", "legacy", "-o", "jsonpath={.data.token}"});
  }
  void renewTokens() const;

  void rotateServiceAccountKey();
  void rotateAggregatorCa();
  void rotateEtcdCa();
};

// Renews tokens as an operator does who does not wait for kubelets.
void RotateKeys::renewTokens() const {
  auto before = legacyToken();
  cluster->ok({"patch", "secret", "legacy", "--type=json",
               R"(-p=[{"op": "remove", "path": "/data/token"}])"});
  EXPECT_TRUE(eventually(
      [&] {
        auto now = legacyToken();
        return !now.empty() && now != before;
      },
      120, 1));
  for (auto kind : {"daemonset", "deployment"}) {
    cluster->ok({"rollout", "restart", kind, "-n", "kube-system"});
  }
  for (auto kind : {"daemonset", "deployment"}) {
    auto names = cluster->ok({"get", kind, "-n", "kube-system", "-o", "name"});
    for (auto& name : harness::lines(names)) {
      cluster->ok({"rollout", "status", "-n", "kube-system", name, "--timeout=240s"}, 300);
    }
  }
}

void RotateKeys::rotateServiceAccountKey() {
  constexpr const char* kFlag = "--service-account-key";
  cluster->apply(kObjects);
  EXPECT_TRUE(eventually([&] { return !legacyToken().empty(); }, 60, 1));
  auto oldClient = at("old-token"), newClient = at("new-token");
  writeTokenKubeconfig(*cluster, oldClient);
  checkPlan(kFlag, "> drop: 10.5.0.4 (control plane) accepts tokens of the new key only");
  EXPECT_EQ(publishedKeys(), 1u);
  SecretsUser user(*cluster, "ofold", oldClient);
  EXPECT_TRUE(eventually([&] { return user.done >= 2; }, 60));
  rotateUntil(kFlag, "", nullptr, "> accept: 10.5.0.2 accepts");
  rotateUntil(kFlag, "> accept: 10.5.0.3 accepts", &cluster->nodes[2], "> issue: 10.5.0.2 signs");
  auto stopped = rotateWhole(kFlag);
  EXPECT_EQ(stopped.status, 1);
  EXPECT_THAT(stopped.err, HasSubstr("stopped before the phase drop"));
  EXPECT_THAT(stopped.err, HasSubstr("\n  default/legacy"));
  EXPECT_THAT(stopped.err, HasSubstr("\n  kube-system/coredns-"));
  EXPECT_EQ(publishedKeys(), 3u) << "the new one, the old one, and one of a run that was cut off";
  writeTokenKubeconfig(*cluster, newClient);
  for (auto& node : cluster->nodes) {
    if (!node.controlPlane) continue;
    EXPECT_EQ(asClient(oldClient, node).status, 0) << node.name;
    EXPECT_EQ(asClient(newClient, node).status, 0) << node.name;
  }
  user.checkStopped(10);
  renewTokens();
  SecretsUser later(*cluster, "ofnew", newClient);
  EXPECT_TRUE(eventually(
      [&] {
        Background run(rotate(kFlag));
        return run.waitFor(
                   [](auto&, auto& err) {
                     return contains(err, "> drop: 10.5.0.2 accepts") || contains(err, "stopped");
                   },
                   kWholeRotation) &&
               contains(run.err(), "> drop: 10.5.0.2 accepts");
      },
      180, 5));
  auto last = rotateWhole(kFlag);
  EXPECT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.err, HasSubstr("> the key of service accounts is rotated"));
  later.checkStopped(10);
  EXPECT_EQ(publishedKeys(), 1u);
  for (auto& node : cluster->nodes) {
    if (!node.controlPlane) continue;
    auto refused = asClient(oldClient, node);
    EXPECT_NE(refused.status, 0) << node.name << " accepts a token of the old key";
    EXPECT_THAT(refused.err, HasSubstr("logged in")) << node.name;
    EXPECT_EQ(asClient(newClient, node).status, 0) << node.name;
  }
  EXPECT_THAT(configs(), Not(HasSubstr("acceptedServiceAccountKeys")));
  cluster->awaitSystem();
}

void RotateKeys::rotateAggregatorCa() {
  constexpr const char* kFlag = "--aggregator-ca";
  auto& nodes = cluster->nodes;
  AggregatedApi api(*cluster);
  api.serve();
  api.expectAvailable(true);
  auto old = secretFile(nodes[0], "aggregator-ca.crt");
  checkPlan(kFlag, "> drop: 10.5.0.4 (control plane) accepts the new CA only");
  SecretsUser user(*cluster, "agg");
  RepeatedCalls calls(*cluster, "aggregated API", [&](auto& node) { return api.call(node); });
  rotateUntil(kFlag, "", nullptr, "> accept: 10.5.0.2 accepts");
  {
    // The server reads the CAs once, so it is replaced by one that reads the CAs published by then.
    Background run(rotate(kFlag));
    EXPECT_TRUE(
        run.waitFor([](auto&, auto& err) { return contains(err, "> accept: 10.5.0.4 accepts"); },
                    kWholeRotation))
        << run.err();
    run.pause();
    api.serve();
    run.proceed();
    EXPECT_TRUE(run.waitFor([](auto&, auto& err) { return contains(err, "> issue: 10.5.0.2 has"); },
                            kWholeRotation))
        << run.err();
  }
  auto last = rotateWhole(kFlag);
  EXPECT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.err, HasSubstr("> the CA of the aggregation layer is rotated"));
  user.checkStopped(10);
  calls.checkStopped(10);
  auto next = secretFile(nodes[0], "aggregator-ca.crt");
  EXPECT_NE(next, old);
  EXPECT_EQ(countOf(next, "BEGIN CERTIFICATE"), 1u);
  auto published = api.published();
  EXPECT_THAT(published, HasSubstr(next));
  EXPECT_THAT(published, Not(HasSubstr(old)));
  EXPECT_THAT(configs(), Not(HasSubstr("acceptedAggregatorCAs")));
  // The server is replaced by one that trusts the CAs published now.
  api.stop();
  api.expectAvailable(false);
  api.serve();
  api.expectAvailable(true);
  cluster->ok({"delete", "apiservice", AggregatedApi::kService});
}

void RotateKeys::rotateEtcdCa() {
  constexpr const char* kFlag = "--etcd-ca";
  auto& nodes = cluster->nodes;
  auto old = at("old-etcd");
  auto copied = harness::run({"cp", "-r", rootOf(nodes[0]) + "/etc/kubernetes/pki/etcd", old}, 10);
  EXPECT_EQ(copied.status, 0) << copied.err;
  EXPECT_EQ(etcdHealth(*cluster, nodes[1], old).status, 0);
  checkPlan(kFlag, "> drop: 10.5.0.4 (control plane) accepts the new CA only");
  SecretsUser user(*cluster, "etcd");
  EXPECT_TRUE(eventually([&] { return user.done >= 2; }, 60));
  rotateUntil(kFlag, "", nullptr, "> accept: 10.5.0.2 accepts");
  rotateUntil(kFlag, "> accept: 10.5.0.3 accepts", nullptr, "> issue: 10.5.0.2 has");
  for (auto& node : nodes) {
    if (node.controlPlane) EXPECT_EQ(etcdHealth(*cluster, node, old).status, 0) << node.name;
  }
  rotateUntil(kFlag, "> present CA", &nodes[2], "> issue: 10.5.0.4 has");
  rotateUntil(kFlag, "", nullptr, "> drop: 10.5.0.2 accepts");
  auto last = rotateWhole(kFlag);
  EXPECT_EQ(last.status, 0) << last.err;
  EXPECT_THAT(last.err, HasSubstr("> the CA of etcd is rotated"));
  user.checkStopped(10);
  for (auto& node : nodes) {
    if (!node.controlPlane) continue;
    auto own = rootOf(node) + "/etc/kubernetes/pki/etcd";
    EXPECT_EQ(countOf(slurp(own + "/ca.crt"), "BEGIN CERTIFICATE"), 1u);
    auto served = etcdHealth(*cluster, node, own);
    EXPECT_EQ(served.status, 0) << node.name << ": " << served.err;
    // It trusts the member, and the member refuses it.
    std::ofstream(old + "/ca.crt") << slurp(own + "/ca.crt");
    EXPECT_NE(etcdHealth(*cluster, node, old).status, 0) << node.name << " accepts the old CA";
  }
  EXPECT_THAT(configs(), Not(HasSubstr("acceptedCAs")));
  cluster->awaitSystem();
}

}  // namespace

// Catches: a token of either key that is refused before the old one is dropped, or accepted
// afterwards; a call that no API server answers; a run that does not find where an earlier one was
// killed; an old key that is dropped while tokens of it are in use.
TEST_F(RotateKeys, OfServiceAccountsIsFinishedWhateverHappensAndNoCallFails) {
  create();
  if (!HasFailure()) rotateServiceAccountKey();
}

// Catches: an aggregated API that is refused by the API servers, or refuses them, in any phase; the
// old CA, published for good.
TEST_F(RotateKeys, OfTheAggregationLayerIsFinishedWhateverHappensAndNoCallFails) {
  create();
  if (!HasFailure()) rotateAggregatorCa();
}

// Catches: members that are restarted at once; a client that knows only the old CA, and is refused
// before that is dropped, or accepted afterwards.
TEST_F(RotateKeys, OfEtcdIsFinishedWhateverHappensAndNoCallFails) {
  create();
  if (!HasFailure()) rotateEtcdCa();
}

}  // namespace talos
