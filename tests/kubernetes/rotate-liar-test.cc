// talosctl rotate-ca for the CAs of Kubernetes, of the aggregation layer and of etcd, on three
// control-plane nodes and two workers, one of which lies about itself in each phase: under clients
// of the old and the new CA, and the users of the replaced secrets.
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>

#include "tests/cluster/lying-node.h"
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

constexpr double kRotated = 900;  // s; beside other tests
constexpr const char *kLiarAddress = "10.5.0.6", *kLiarName = "kubeliar-worker-2";
constexpr const char *kOfKubernetes = "--talos=false", *kOfAggregator = "--aggregator-ca",
                     *kOfEtcd = "--etcd-ca";
constexpr const char* kClaim = "10.5.0.6: its config has machine.type: controlplane, but ";
constexpr const char *kBecomes = "machine.type was worker, and is controlplane now",
                     *kAnotherCa = "its CA was ";

constexpr const char* kWhatUsersNeed = R"(apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
---
apiVersion: v1
kind: Pod
metadata: {name: kubeliar-worker-1, labels: {app: logged}}
spec:
  nodeName: kubeliar-worker-1
  containers: [{name: main, image: "busybox:1.37", command: [sh, -c, "echo logged; sleep 100000"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: kubeliar-worker-2, labels: {app: logged}}
spec:
  nodeName: kubeliar-worker-2
  containers: [{name: main, image: "busybox:1.37", command: [sh, -c, "echo logged; sleep 100000"]}]
)";

struct RotateLiar : public KubeHost {
  ~RotateLiar() noexcept override {}
  std::unique_ptr<KubeCluster> cluster;
  std::unique_ptr<LyingNode> liar;
  std::set<std::string> keys;  // that the control plane has or had

  std::string at(const char* name) const { return cluster->talos.folder() + "/" + name; }
  std::vector<std::string> rotate(const std::string& flag,
                                  const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"rotate-ca", flag, "--dry-run=false"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cluster->talos.command(arguments);
  }
  Result plan(const std::string& flag) const {
    auto shown = harness::run(cluster->talos.command({"rotate-ca", flag}), 120);
    EXPECT_EQ(shown.status, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr("nothing was changed"));
    return shown;
  }
  static void awaitLine(Background& run, const std::string& line) {
    EXPECT_TRUE(run.waitFor([&](auto&, auto& err) { return contains(err, line); }, kRotated))
        << line << ": " << run.err();
  }
  void rememberKeys() {
    for (auto& node : cluster->nodes) {
      if (!node.controlPlane) continue;
      keys.merge(keysIn(cluster->talos.ok({"-n", node.address, "get", "mc", "-o", "yaml"})));
    }
  }
  Result atServer(const std::string& kubeconfig, const KubeNode& node) const {
    auto words = cluster->kubectlCommand(
        {"--server", "https://" + node.address + ":6443", "get", "namespaces"});
    words[2] = kubeconfig;
    return cluster->in(cluster->segment(), words, 60);
  }
  // Every API server is served by the kubelets of both workers.
  void expectLogs() const {
    for (auto& node : cluster->nodes) {
      if (!node.controlPlane) continue;
      for (auto pod : {"kubeliar-worker-1", "kubeliar-worker-2"}) {
        Result last;
        EXPECT_TRUE(eventually(
            [&] {
              last =
                  cluster->kubectl({"--server", "https://" + node.address + ":6443", "logs", pod});
              return last.out == "logged\n";
            },
            60, 1))
            << node.name << ", " << pod << ": " << last.err;
      }
    }
  }

  void create();
  void expectClaimsRefused(const std::string& flag);
  void expectMembersRefused(const std::string& flag);
  void lieUntil(
      const std::string& flag, const std::string& line, const std::string& pausedAt = "",
      const std::function<void()>& meanwhile = [] {});
  void finishUnderALie(const std::string& flag, const std::string& done);
  void expectNoKeyLeft();
  void rotateKubernetesCa();
  void rotateAggregatorCa();
  void rotateEtcdCa();
};

void RotateLiar::create() {
  cluster = std::make_unique<KubeCluster>("kubeliar", 3, 2);
  cluster->awaitSystem();
  cluster->apply(kWhatUsersNeed);
  cluster->awaitPods("default", "app=logged", 2, kPodsUp);
  liar = std::make_unique<LyingNode>(cluster->talos, kLiarName, kLiarAddress,
                                     [this] { return cluster->talos.talosconfig(); });
  rememberKeys();
  EXPECT_GE(keys.size(), 5u) << "the config of a control-plane node has more";
}

// In the first look, a worker claims to belong to the control plane, named as such or not.
void RotateLiar::expectClaimsRefused(const std::string& flag) {
  Lies lies("/cluster");
  auto listed = std::string(kClaim) + "the members of the cluster list it as worker";
  for (auto type : {"controlplane", "init"}) {
    liar->tell(lies.controlPlane(type));
    liar->expectRefused(rotate(flag), listed);
  }
  liar->expectRefused(rotate(flag, {"--control-plane-nodes=10.5.0.2,10.5.0.3,10.5.0.4,10.5.0.6",
                                    "--worker-nodes=10.5.0.5"}),
                      listed);
  liar->expectRefused(rotate(flag, {"--control-plane-nodes=10.5.0.2,10.5.0.3,10.5.0.4",
                                    "--worker-nodes=10.5.0.5,10.5.0.6"}),
                      std::string(kClaim) + "it is named with --worker-nodes");
  liar->tell("");
}

// The liar lists the cluster's members: with another type of one member, or without one.
void RotateLiar::expectMembersRefused(const std::string& flag) {
  auto tellMembers = [&](const std::string& other, const char* type) {
    std::string lines;
    for (auto& node : cluster->nodes) {
      auto shown = node.name == other ? type : node.controlPlane ? "controlplane" : "worker";
      if (*shown != 0) lines += node.name + " " + node.address + " " + shown + "\n";
    }
    liar->tellMembers(lines);
  };
  auto asked = rotate(flag, {"-n", kLiarAddress});
  tellMembers(kLiarName, "controlplane");
  liar->tell(Lies("/cluster").controlPlane());
  liar->expectRefused(asked, std::string(kClaim) + "it does not have the key");
  liar->tell("");
  auto wasAsked = " list it as controlplane (10.5.0.6 was asked for them)";
  liar->expectRefused(asked, wasAsked);
  tellMembers("kubeliar-worker-1", "controlplane");
  liar->expectRefused(asked, wasAsked);
  tellMembers("kubeliar-master-3", "worker");
  liar->expectRefused(asked, " list it as worker (10.5.0.6 was asked for them)");
  for (auto leftOut : {"kubeliar-master-3", "kubeliar-worker-1", kLiarName}) {
    tellMembers(leftOut, "");
    liar->expectRefused(asked, "10.5.0.6 lists other members than the control-plane node 10.5.0.2");
  }
  liar->tellMembers("");
}

// In a rotation that is not for workers, a worker claims to belong to the control plane after the
// start; the run that continues the one killed at this line finds out.
void RotateLiar::lieUntil(const std::string& flag, const std::string& line,
                          const std::string& pausedAt, const std::function<void()>& meanwhile) {
  SCOPED_TRACE(flag + " " + line);
  auto before = liar->received();
  {
    Background run(rotate(flag));
    awaitLine(run, "> present CA of");
    liar->tell(Lies("/cluster").controlPlane());
    awaitLine(run, pausedAt);
    run.pause();
    meanwhile();
    run.proceed();
    awaitLine(run, line);
  }
  rememberKeys();
  liar->expectRefused(rotate(flag),
                      std::string(kClaim) + "the members of the cluster list it as worker");
  liar->tell("");
  EXPECT_EQ(liar->received(), before);
}

void RotateLiar::finishUnderALie(const std::string& flag, const std::string& done) {
  auto before = liar->received();
  Background last(rotate(flag));
  awaitLine(last, "> present CA of");
  liar->tell(Lies("/cluster").controlPlane());
  EXPECT_EQ(last.finish(kRotated), 0) << last.err();
  EXPECT_THAT(last.err(), HasSubstr(done));
  liar->tell("");
  EXPECT_EQ(liar->received(), before);
  rememberKeys();
}

void RotateLiar::rotateKubernetesCa() {
  Lies lies("/cluster");
  auto oldConfig = at("old-kubeconfig"), newConfig = at("new-kubeconfig"), podConfig = at("pod");
  auto authority = [](const std::string& kubeconfig) {
    constexpr const char* kField = "certificate-authority-data: ";
    auto text = slurp(kubeconfig);
    auto from = text.find(kField) + strlen(kField);
    return text.substr(from, text.find('\n', from) - from);
  };
  std::ofstream(oldConfig) << slurp(cluster->kubeconfigPath());
  auto own = authority(oldConfig);
  writeTokenKubeconfig(*cluster, podConfig);
  SecretsUser ofOld(*cluster, "ofold", oldConfig), ofPod(*cluster, "ofpod", podConfig);

  expectClaimsRefused(kOfKubernetes);
  expectMembersRefused(kOfKubernetes);
  auto address = std::string(kLiarAddress);
  for (auto& [patch, error] : std::vector<std::pair<std::string, std::string>>{
           {lies.otherCa(), ": its CA sha256:"},
           {lies.noCa(), ": its config has no cluster.ca"},
           {lies.noCertificate(), ": "},
           {lies.noPersistence(), ": its config has persist: false"}}) {
    liar->tell(patch);
    liar->expectRefused(rotate(kOfKubernetes), address + error);
  }
  liar->tell("");
  auto truth = plan(kOfKubernetes);
  liar->tell(lies.acceptedCas(own));
  EXPECT_EQ(plan(kOfKubernetes).out, truth.out) << "a worker's list decides";

  auto expectStopped = [&](
                           const char* line, const std::string& patch, const std::string& reason,
                           const std::function<void()>& meanwhile = [] {}) {
    liar->expectStopped(rotate(kOfKubernetes), line, patch, " has changed its answer: " + reason,
                        meanwhile);
    liar->tell("");
    rememberKeys();
    expectLogs();
  };
  expectStopped("> accept: 10.5.0.4 accepts", lies.controlPlane(), kBecomes);
  expectStopped("> accept: 10.5.0.3 accepts", lies.noPersistence(), "persist was true");
  expectStopped("> accept: 10.5.0.6 accepts", lies.otherCa(), kAnotherCa);
  expectStopped("> issue: 10.5.0.4 has", lies.controlPlane("init"), kBecomes);
  cluster->talos.ok({"-n", "10.5.0.2", "kubeconfig", "--force", "--merge=false", newConfig}, 60);
  EXPECT_NE(authority(newConfig), own);
  std::ofstream(cluster->kubeconfigPath()) << slurp(newConfig);
  SecretsUser ofNew(*cluster, "ofnew", newConfig);
  expectStopped("> present CA of", lies.sameKey(own),
                "its CA was .* another certificate of this key");
  expectStopped("> issue: 10.5.0.5 has", lies.noCa(), "its CA was .*, and is none now");
  // The kubelet has a certificate of the new CA, and nothing that the node shows proves it.
  liar->tellFiles("nothing of use\n");
  expectStopped("waiting for 10.5.0.6: the certificate of its kubelet is not of the new CA yet",
                lies.controlPlane(), kBecomes, [&] { liar->tellFiles(""); });
  // The next phase, with which this run begins, ends clients of the old CA.
  expectStopped("> present CA of", lies.controlPlane(), kBecomes, [&] { ofOld.checkStopped(10); });
  expectStopped("> drop: 10.5.0.5 accepts", lies.otherCa(), kAnotherCa);
  {
    liar->tell(lies.acceptedCas(own));
    Background last(rotate(kOfKubernetes));
    awaitLine(last, "> present CA of");
    liar->tell("");
    EXPECT_EQ(last.finish(kRotated), 0) << last.err();
    EXPECT_THAT(last.err(), HasSubstr("> the CA of Kubernetes is rotated"));
  }
  ofNew.checkStopped(10);
  ofPod.checkStopped(10);
  rememberKeys();
  expectLogs();
  for (auto& node : cluster->nodes) {
    if (!node.controlPlane) continue;
    auto refused = atServer(oldConfig, node), served = atServer(newConfig, node);
    EXPECT_NE(refused.status, 0) << node.name << ": its API server accepts the old CA";
    EXPECT_THAT(refused.err, HasSubstr("must be logged in")) << node.name;
    EXPECT_EQ(served.status, 0) << node.name << ": " << served.err;
  }
  // This shows that the search for keys works.
  EXPECT_THAT(liar->received(), HasSubstr(authority(newConfig)));
}

void RotateLiar::rotateAggregatorCa() {
  AggregatedApi api(*cluster);
  api.serve();
  api.expectAvailable(true);
  SecretsUser user(*cluster, "agg");
  RepeatedCalls calls(*cluster, "aggregated API", [&](auto& node) { return api.call(node); });
  expectClaimsRefused(kOfAggregator);
  expectMembersRefused(kOfAggregator);
  lieUntil(kOfAggregator, "> accept: 10.5.0.2 accepts");
  // It reads the published CAs once.
  lieUntil(kOfAggregator, "> issue: 10.5.0.2 has", "> accept: 10.5.0.4 accepts",
           [&] { api.serve(); });
  lieUntil(kOfAggregator, "> drop: 10.5.0.2 accepts");
  finishUnderALie(kOfAggregator, "> the CA of the aggregation layer is rotated");
  user.checkStopped(10);
  calls.checkStopped(10);
  api.expectAvailable(true);
  cluster->ok({"delete", "apiservice", AggregatedApi::kService});
}

void RotateLiar::rotateEtcdCa() {
  auto filesOf = [&](const char* name) {
    auto root = "/proc/" + std::to_string(cluster->talos.process(cluster->nodes[0].name)) + "/root";
    auto copied = harness::run({"cp", "-r", root + "/etc/kubernetes/pki/etcd", at(name)}, 10);
    EXPECT_EQ(copied.status, 0) << copied.err;
    return at(name);
  };
  auto clientWith = [&](const std::string& name, const std::string& files) {
    return std::make_unique<RepeatedCalls>(
        *cluster, name, [this, files](auto& node) { return etcdHealth(*cluster, node, files); });
  };
  auto old = clientWith("etcd, old CA", filesOf("old-etcd"));
  SecretsUser user(*cluster, "etcd");
  expectClaimsRefused(kOfEtcd);
  expectMembersRefused(kOfEtcd);
  lieUntil(kOfEtcd, "> accept: 10.5.0.2 accepts");
  lieUntil(kOfEtcd, "> issue: 10.5.0.2 has");
  auto fresh = clientWith("etcd, new CA", filesOf("new-etcd"));
  lieUntil(kOfEtcd, "> drop: 10.5.0.2 accepts", "> issue: 10.5.0.4 has",
           [&] { old->checkStopped(10); });
  finishUnderALie(kOfEtcd, "> the CA of etcd is rotated");
  fresh->checkStopped(10);
  user.checkStopped(10);
}

// No config that the liar was sent has an old or a new key, and the cluster is healthy.
void RotateLiar::expectNoKeyLeft() {
  auto received = liar->received();
  EXPECT_EQ(keysIn(received).size(), 0u);
  for (auto& key : keys) EXPECT_FALSE(contains(received, key)) << "a key has left";
  EXPECT_THAT(received, Not(HasSubstr("a call for Kubernetes")))
      << "the key of a client may have left";
  if (!HasFailure()) cluster->awaitSystem();
}

}  // namespace

// Catches: a key that a worker gets because of its claims about itself or about the members, in any
// phase; a run that continues with this worker, ends without its name, or cannot be continued; a
// worker that is called, or sent anything, in a rotation that is not for it; a failed call of an
// honest client.
TEST_F(RotateLiar, KubernetesCa) {
  create();
  if (!HasFailure()) rotateKubernetesCa();
  expectNoKeyLeft();
}

TEST_F(RotateLiar, AggregatorCa) {
  create();
  if (!HasFailure()) rotateAggregatorCa();
  expectNoKeyLeft();
}

TEST_F(RotateLiar, EtcdCa) {
  create();
  if (!HasFailure()) rotateEtcdCa();
  expectNoKeyLeft();
}

}  // namespace talos
