#include "talosctl/upgrade-k8s/upgrade-run.h"

#include <gmock/gmock.h>
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/testing/virtual-time.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/upgrade-k8s/test-upgrade.h"

namespace talos::talosctl {
namespace {

using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Nodes and API servers that obey requests, each after some attempts, and a log of these requests.
class ModelCluster final : public UpgradableCluster {
 public:
  ModelCluster(kj::StringPtr release, kj::Timer& timer)
      : timer(timer), state(modelCluster(release)) {
    for (auto& node : state.nodes) {
      for (unsigned part = 0; part < kParts; ++part) {
        auto image = node.image(static_cast<KubernetesPart>(part));
        if (image.size() == 0) continue;
        run(node, static_cast<KubernetesPart>(part)) = {kj::str(image), kj::str(image), 2, 0};
      }
    }
    daemonSetImage = kj::str(KJ_ASSERT_NONNULL(state.proxyImage));
  }

  std::string log;        // changes made
  unsigned slowness = 1;  // reads until a change takes effect
  std::string missing;    // image that cannot be pulled
  std::string refusing;   // node that refuses configs
  std::string broken;     // part that never becomes ready: "kube-scheduler of 10.5.0.4"
  bool rehearsed = false, proxyThere = true;
  unsigned conflicts = 0;

  struct Runs {
    kj::String config, running;
    uint64_t version = 2;
    unsigned looks = 0;
  };

  kj::Promise<ClusterState> read(bool workers) override {
    ClusterState now;
    for (auto& node : state.nodes) {
      NodeState copy;
      copy.name = kj::str(node.name);
      copy.address = kj::str(node.address);
      copy.controlPlane = node.controlPlane;
      copy.kubeletVersion = kj::str(node.kubeletVersion);
      if (node.controlPlane) {
        copy.apiServer = kj::str(run(node, KubernetesPart::kApiServer).config);
        copy.controllerManager = kj::str(run(node, KubernetesPart::kControllerManager).config);
        copy.scheduler = kj::str(run(node, KubernetesPart::kScheduler).config);
        copy.proxy = kj::str(run(node, KubernetesPart::kProxy).config);
      }
      if (workers) copy.kubelet = kj::str(run(node, KubernetesPart::kKubelet).config);
      now.nodes.add(kj::mv(copy));
    }
    if (proxyThere) now.proxyImage = kj::str(daemonSetImage);
    return now;
  }
  kj::Promise<UpgradeHazards> hazards(const ClusterState&, KubernetesVersion) override {
    UpgradeHazards found;
    if (silentWebhook) {
      found.webhooks.add(
          SilentWebhook{kj::str("policy"), kj::str("v.io"), kj::str("guard"), kj::str("web")});
    }
    addRequested(found.apis, requested, "10.5.0.2");
    if (unknown.size() > 0) found.unknown.add(kj::str(unknown));
    return kj::mv(found);
  }
  kj::StringPtr requested = "";  // metrics of the API servers
  kj::StringPtr unknown = "";    // error of a failed check
  bool silentWebhook = false;
  kj::Promise<void> pull(const NodeState& node, kj::StringPtr image) override {
    if (missing == image.cStr()) return error(ErrorKind::kNotFound, "not in the registry");
    ++(node.controlPlane ? pullingControl : pullingWorkers);
    mostControl = std::max(mostControl, pullingControl);
    mostWorkers = std::max(mostWorkers, pullingWorkers);
    auto wait = timer.afterDelay(1 * kj::SECONDS).then([this, control = node.controlPlane] {
      --(control ? pullingControl : pullingWorkers);
    });
    pulled += kj::str(node.address, " ", image, "\n").cStr();
    return wait;
  }
  std::string pulled;
  unsigned pullingControl = 0, pullingWorkers = 0, mostControl = 0, mostWorkers = 0;
  kj::Promise<void> setImages(const NodeState& node, kj::ArrayPtr<const ImageChange* const> changes,
                              bool rehearsal) override {
    if (refusing == node.address.cStr()) {
      return error(ErrorKind::kFailedPrecondition, "changes need a reboot");
    }
    rehearsed = rehearsed || rehearsal;
    if (rehearsal) return kj::READY_NOW;
    if (conflicts > 0) return --conflicts, error(ErrorKind::kConflict, "another apply runs");
    for (auto change : changes) {
      if (change->part == KubernetesPart::kKubelet) {
        if (now() < kubeletChanged + 30 * kj::SECONDS) log += "too early: ";
        kubeletChanged = now();
      }
      log += kj::str(config::nameOf(change->part), " ", node.address, "\n").cStr();
      auto& one = run(node, change->part);
      one.config = kj::str(change->image);
      ++one.version;
      one.looks = 0;
    }
    return kj::READY_NOW;
  }
  kj::Promise<PodDefinition> definition(const NodeState& node, KubernetesPart part) override {
    auto& one = run(node, part);
    return PodDefinition{kj::str(one.config), one.version};
  }
  kj::Promise<kj::Maybe<PodState>> pod(const NodeState& node, KubernetesPart part) override {
    auto& one = run(node, part);
    PodState pod;
    pod.configVersion = kj::str(arrived(one) ? one.version : one.version - 1);
    pod.ready = broken != kj::str(config::nameOf(part), " of ", node.address).cStr();
    if (!pod.ready) pod.problem = kj::str("CrashLoopBackOff");
    return kj::Maybe<PodState>(kj::mv(pod));
  }
  kj::Promise<kj::String> apiServerRelease(const NodeState& node) override {
    auto since = now() - kubeletChanged;
    if (since > 5 * kj::SECONDS && since < 15 * kj::SECONDS) {
      return error(ErrorKind::kUnavailable, "the API server starts");
    }
    asked += kj::str(node.address, "\n").cStr();
    auto& running = run(node, KubernetesPart::kApiServer).running;
    return kj::str(running.slice(KJ_ASSERT_NONNULL(running.findLast(':')) + 1));
  }
  std::string asked;
  kj::Promise<KubeletState> kubelet(const NodeState& node) override {
    auto& one = run(node, KubernetesPart::kKubelet);
    arrived(one);
    return KubeletState{
        kj::str(one.running.slice(KJ_ASSERT_NONNULL(one.running.findLast(':')) + 1)), true};
  }
  kj::Promise<void> setDaemonSetImage(kj::StringPtr image) override {
    log += "daemonset\n";
    daemonSetImage = kj::str(image);
    daemonSetLooks = 0;
    return kj::READY_NOW;
  }
  kj::Promise<DaemonSetState> daemonSet() override {
    bool done = ++daemonSetLooks > slowness;
    return DaemonSetState{
        .observed = done, .desired = 3, .updated = done ? 3u : 1u, .available = 3, .pods = 3};
  }

  // Objects of the manifests: their names, and their changes.
  std::vector<std::pair<std::string, ObjectChange>> objects;
  bool earlierVersion = false;
  unsigned rollouts = 0, missingLooks = 0;
  kj::Promise<kj::Maybe<kj::Vector<kube::ManifestObject>>> manifests(
      const NodeState& node, kj::ArrayPtr<const ImageChange* const> changes) override {
    manifestsOf += kj::str(node.address, " with ", changes.size(), "\n").cStr();
    kj::Vector<kube::ManifestObject> all;
    for (auto& [name, change] : objects) {
      kube::Json object{
          {"apiVersion", "v1"}, {"kind", "Deployment"}, {"metadata", {{"name", name}}}};
      all.add(kube::ManifestObject{kj::str("11-x"), kj::mv(object)});
    }
    if (earlierVersion) return kj::Maybe<kj::Vector<kube::ManifestObject>>(nullptr);
    return kj::Maybe<kj::Vector<kube::ManifestObject>>(kj::mv(all));
  }
  std::string manifestsOf;
  kj::Promise<ObjectChange> changeObject(const kube::ManifestObject& object,
                                         bool rehearsal) override {
    for (auto& [name, change] : objects) {
      if (object.name() != name.c_str()) continue;
      if (!rehearsal && change.changes) log += kj::str("object ", name.c_str(), "\n").cStr();
      ObjectChange copy;
      copy.object = kj::str("Deployment ", name.c_str());
      copy.changes = change.changes;
      copy.missing = missingLooks > 0 && name == "later";
      if (copy.missing && !rehearsal) --missingLooks;
      copy.diff = kj::str(change.diff);
      for (auto& kept : change.kept) copy.kept.add(kj::str(kept));
      return kj::mv(copy);
    }
    return error(ErrorKind::kNotFound, "no such object");
  }
  kj::Promise<kj::String> rollout(const kube::ManifestObject& object) override {
    if (++rollouts > slowness) return kj::String();
    return kj::str("1 of 2 pods are updated, 2 available");
  }

  kj::Timer& timer;
  ClusterState state;
  kj::String daemonSetImage;
  Runs& run(const NodeState& node, KubernetesPart part) {
    auto name = std::string(kj::str(node.address, config::nameOf(part)).cStr());
    return runs[name];
  }

 private:
  static constexpr unsigned kParts = 5;
  std::map<std::string, Runs> runs;
  unsigned daemonSetLooks = 100;

  kj::TimePoint kubeletChanged = kj::origin<kj::TimePoint>() - 1 * kj::HOURS;
  kj::TimePoint now() { return timer.now(); }

  bool arrived(Runs& one) {
    if (one.running == one.config) return true;
    if (++one.looks <= slowness) return false;
    one.running = kj::str(one.config);
    return true;
  }
};

class UpgradeK8sRuns : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  TestConsole console;
  FixedClock clock;

  ~UpgradeK8sRuns() noexcept override {}

  // Returns the error of the upgrade; empty if it succeeded.
  std::string upgrade(ModelCluster& cluster, bool json = false, bool dryRun = false,
                      bool kubelets = true, kj::StringPtr to = "1.35.4", bool force = false) {
    UpgradeLines lines(console, json ? EventFormat::kJson : EventFormat::kText);
    UpgradeRun run(timer, clock, cluster, lines);
    UpgradeIntent intent{
        .from = nullptr, .to = readRelease(to, "to"), .kubelets = kubelets, .force = force};
    auto running = run.run(kj::mv(intent), dryRun);
    for (unsigned i = 0; i < 3600 && !running.poll(scope); ++i) {
      advance(timer, scope, 1 * kj::SECONDS);
    }
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { running.wait(scope); })) {
      return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    }
    return "";
  }
};

constexpr const char* kOrder =
    "kube-apiserver 10.5.0.2\n"
    "kube-apiserver 10.5.0.4\n"
    "kube-controller-manager 10.5.0.2\n"
    "kube-controller-manager 10.5.0.4\n"
    "kube-scheduler 10.5.0.2\n"
    "kube-scheduler 10.5.0.4\n"
    "kube-proxy 10.5.0.2\n"
    "kube-proxy 10.5.0.4\n"
    "daemonset\n"
    "kubelet 10.5.0.2\n"
    "kubelet 10.5.0.4\n"
    "kubelet 10.5.0.3\n";

// Scripts match these lines; lines of the documents are printed exactly, and stdout has no other
// lines. Catches: an additional line, for workers or kubelets, on stdout.
TEST_F(UpgradeK8sRuns, PrintsAsTheDocumentsDo) {
  ModelCluster cluster("1.34.4", timer);
  EXPECT_EQ(upgrade(cluster), "");
  EXPECT_EQ(console.takeOut(),
            "discovered master nodes [\"10.5.0.2\" \"10.5.0.4\"]\n"
            "updating \"kube-apiserver\" to version \"1.35.4\"\n"
            " > updating node \"10.5.0.2\"\n"
            " > updating node \"10.5.0.4\"\n"
            "updating \"kube-controller-manager\" to version \"1.35.4\"\n"
            " > updating node \"10.5.0.2\"\n"
            " > updating node \"10.5.0.4\"\n"
            "updating \"kube-scheduler\" to version \"1.35.4\"\n"
            " > updating node \"10.5.0.2\"\n"
            " > updating node \"10.5.0.4\"\n"
            "updating daemonset \"kube-proxy\" to version \"1.35.4\"\n"_kj);
  auto err = console.takeErr();
  EXPECT_THAT(err.cStr(), StartsWith("discovered worker nodes [\"10.5.0.3\"]\n"
                                     "found Kubernetes 1.34.4\n10.5.0.2: pulling "
                                     "registry.k8s.io/kube-apiserver:v1.35.4\n"));
  EXPECT_THAT(err.cStr(), ContainsRegex("\nupdating \"kubelet\" to version \"1.35.4\"\n"
                                        " > updating node \"10.5.0.2\"\n(.*retrying.*\n)*"
                                        " > updating node \"10.5.0.4\"\n(.*retrying.*\n)*"
                                        " > updating node \"10.5.0.3\"\n"));
  EXPECT_THAT(err.cStr(), HasSubstr("\n2021/03/06 03:06:40 retrying error: config version "
                                    "mismatch: got \"2\", expected \"3\"\n"));
  EXPECT_THAT(err.cStr(), HasSubstr("retrying error: 1 of 3 pods are updated, 3 available\n"));
  EXPECT_EQ(cluster.log, kOrder);
  EXPECT_TRUE(cluster.rehearsed);
}

// Catches: an API server that counts as ready before it answers with the new release; a kubelet
// change that leaves its API server without an answer.
TEST_F(UpgradeK8sRuns, EachApiServerIsWaitedFor) {
  ModelCluster cluster("1.34.4", timer);
  cluster.slowness = 40;
  EXPECT_EQ(upgrade(cluster), "");
  EXPECT_THAT(cluster.asked, StartsWith("10.5.0.2\n10.5.0.4\n10.5.0.2\n"));
  EXPECT_EQ(cluster.log, kOrder);
}

// Catches: two API servers that are down at once, because a kubelet restarts its pods after it is
// Ready; a worker's kubelet whose upgrade waits for an API server.
TEST_F(UpgradeK8sRuns, TheApiServerOfANewKubeletSettles) {
  ModelCluster cluster("1.34.4", timer);
  cluster.slowness = 0;
  EXPECT_EQ(upgrade(cluster), "");
  EXPECT_EQ(cluster.log, kOrder);
  EXPECT_THAT(console.takeErr().cStr(),
              HasSubstr("retrying error: the API server of 10.5.0.2 must answer for 20s without "
                        "a break\n2021/03/06 03:06:40 retrying error: the API server starts\n"));
}

// Catches: a cluster that is partly changed because the release does not exist.
TEST_F(UpgradeK8sRuns, AnImageThatDoesNotExistChangesNothing) {
  for (auto image : {"registry.k8s.io/kube-scheduler:v1.35.4", "registry.k8s.io/kube-proxy:v1.35.4",
                     "ghcr.io/siderolabs/kubelet:v1.35.4"}) {
    ModelCluster cluster("1.34.4", timer);
    cluster.missing = image;
    auto said = upgrade(cluster);
    EXPECT_THAT(said, StartsWith("NotFound: 10.5.0."));
    EXPECT_THAT(said, HasSubstr(std::string("cannot pull ") + image));
    EXPECT_THAT(said, EndsWith("not in the registry; nothing was changed"));
    EXPECT_EQ(cluster.log, "");
    EXPECT_THAT(console.takeOut().cStr(), testing::Not(HasSubstr("updating")));
  }
}

TEST_F(UpgradeK8sRuns, ANodeThatWouldNotTakeItsConfigChangesNothing) {
  ModelCluster cluster("1.34.4", timer);
  cluster.refusing = "10.5.0.3";
  EXPECT_EQ(upgrade(cluster),
            "FailedPrecondition: 10.5.0.3 would refuse the config: changes need a reboot; "
            "nothing was changed");
  EXPECT_EQ(cluster.log + cluster.pulled, "");
}

// Catches: changes after a failure; a wait without an end; a run that repeats changes that were
// made before.
TEST_F(UpgradeK8sRuns, AFailureEndsItAndTheNextRunGoesOn) {
  ModelCluster cluster("1.34.4", timer);
  cluster.broken = "kube-scheduler of 10.5.0.2";
  EXPECT_EQ(upgrade(cluster, true),
            "DeadlineExceeded: timed out after 5m0s waiting for kube-scheduler on 10.5.0.2: pod is "
            "not ready: CrashLoopBackOff; fix that, and run the same command again: it continues "
            "from here");
  auto json = console.takeOut();
  EXPECT_THAT(json.cStr(), HasSubstr("{\"component\":\"kube-apiserver\",\"node\":\"10.5.0.2\","
                                     "\"image\":\"registry.k8s.io/kube-apiserver:v1.35.4\","
                                     "\"result\":\"updated\"}\n"));
  EXPECT_THAT(json.cStr(), HasSubstr("\"image\":\"registry.k8s.io/kube-scheduler:v1.35.4\","
                                     "\"result\":\"failed\",\"message\":\"timed out after 5m0s"));
  auto lines = std::string(console.takeErr().cStr());
  auto problem = "retrying error: pod is not ready: CrashLoopBackOff\n";
  EXPECT_THAT(lines, HasSubstr(problem));
  EXPECT_EQ(lines.find(problem), lines.rfind(problem)) << "each text once";

  cluster.broken = "";
  cluster.log = cluster.pulled = "";
  EXPECT_EQ(upgrade(cluster, true), "");
  EXPECT_EQ(cluster.log,
            std::string(kOrder).substr(std::string(kOrder).find("kube-scheduler 10.5.0.4")));
  EXPECT_THAT(cluster.pulled, testing::Not(HasSubstr("kube-apiserver")));
  EXPECT_THAT(console.takeOut().cStr(),
              HasSubstr("\"image\":\"registry.k8s.io/kube-scheduler:v1.35.4\",\"result\":"
                        "\"unchanged\"}\n"));
}

TEST_F(UpgradeK8sRuns, AConfigThatAnotherOneChangesIsReadAgain) {
  ModelCluster cluster("1.34.4", timer);
  cluster.conflicts = 3;
  EXPECT_EQ(upgrade(cluster), "");
  EXPECT_EQ(cluster.log, kOrder);
  cluster.conflicts = 1000;
  cluster.run(cluster.state.nodes[0], KubernetesPart::kApiServer).config =
      kj::str("registry.k8s.io/kube-apiserver:v1.35.3");
  EXPECT_THAT(upgrade(cluster), StartsWith("DeadlineExceeded: timed out after 1m0s waiting for "
                                           "10.5.0.2 to accept its config: another apply runs"));
}

TEST_F(UpgradeK8sRuns, ADryRunChangesAndPullsNothing) {
  ModelCluster cluster("1.34.4", timer);
  EXPECT_EQ(upgrade(cluster, false, true), "");
  EXPECT_EQ(cluster.log + cluster.pulled, "");
  EXPECT_TRUE(cluster.rehearsed);
  auto out = console.takeOut();
  EXPECT_THAT(out.cStr(), HasSubstr("would be updating \"kube-scheduler\" to version \"1.35.4\"\n"
                                    " > node \"10.5.0.2\": registry.k8s.io/kube-scheduler:v1.34.4 "
                                    "-> registry.k8s.io/kube-scheduler:v1.35.4\n"));
  EXPECT_THAT(out.cStr(), HasSubstr("would be updating daemonset \"kube-proxy\""));
}

// Catches: workers that are called although their kubelets stay; a cluster without kube-proxy that
// is refused.
TEST_F(UpgradeK8sRuns, WithoutKubeletsAndWithoutKubeProxy) {
  ModelCluster cluster("1.34.4", timer);
  cluster.proxyThere = false;
  EXPECT_EQ(upgrade(cluster, false, false, false), "");
  EXPECT_THAT(cluster.log, EndsWith("kube-proxy 10.5.0.4\n"));
  EXPECT_THAT(cluster.pulled, testing::Not(HasSubstr("10.5.0.3")));
  EXPECT_THAT(console.takeErr().cStr(),
              HasSubstr("daemonset \"kube-proxy\" does not exist: skipped\n"));
  EXPECT_THAT(console.takeOut().cStr(), testing::Not(HasSubstr("kubelet")));
}

// Catches: an upgrade without a warning although programs stop working with the new release, or its
// control plane cannot start; a patch release that is refused for the same reasons.
TEST_F(UpgradeK8sRuns, WhatTheNewReleaseWouldBreakIsSaidFirst) {
  constexpr auto kRequested =
      "apiserver_requested_deprecated_apis{group=\"flowcontrol.apiserver.k8s.io\","
      "removed_release=\"1.35\",resource=\"flowschemas\",subresource=\"\",version=\"v1beta3\"} 1\n"
      "apiserver_requested_deprecated_apis{group=\"autoscaling\",removed_release=\"1.36\","
      "resource=\"horizontalpodautoscalers\",subresource=\"\",version=\"v2beta1\"} 1\n"_kj;
  ModelCluster cluster("1.34.4", timer);
  cluster.requested = kRequested;
  auto refusal = upgrade(cluster);
  EXPECT_THAT(refusal, StartsWith("FailedPrecondition: Kubernetes 1.35.4 would break this cluster: "
                                  "flowschemas of flowcontrol.apiserver.k8s.io/v1beta3"));
  EXPECT_THAT(console.takeErr().cStr(),
              HasSubstr("for a later upgrade: horizontalpodautoscalers of autoscaling/v2beta1"));
  EXPECT_EQ(upgrade(cluster, false, true), refusal);
  EXPECT_EQ(cluster.log + cluster.pulled, "");
  EXPECT_FALSE(cluster.rehearsed);
  cluster.requested = "";
  cluster.silentWebhook = true;
  EXPECT_THAT(upgrade(cluster, false, true, true, "1.34.5"),
              HasSubstr("the webhook v.io of policy must admit what an upgrade changes, and its "
                        "Service guard/web has no ready endpoint"));
  cluster.silentWebhook = false;
  cluster.requested = kRequested;
  EXPECT_EQ(upgrade(cluster, false, true, true, "1.34.5"), "");
  console.takeErr();
  EXPECT_EQ(upgrade(cluster, false, false, true, "1.35.4", true), "");
  EXPECT_THAT(console.takeErr().cStr(), HasSubstr("warning: Kubernetes 1.35.4 would break"));
  EXPECT_EQ(cluster.log, kOrder);
}

// Catches: a cluster that can never be upgraded because a check failed; a cluster that is upgraded
// without a warning about it.
TEST_F(UpgradeK8sRuns, ALookThatFailedIsPassedByForce) {
  ModelCluster cluster("1.34.4", timer);
  cluster.unknown = "the metrics were cut off"_kj;
  EXPECT_THAT(upgrade(cluster), StartsWith("FailedPrecondition: Kubernetes 1.35.4 may break this "
                                           "cluster: the metrics were cut off; nothing"));
  EXPECT_EQ(cluster.log + cluster.pulled, "");
  console.takeErr();
  EXPECT_EQ(upgrade(cluster, false, false, true, "1.35.4", true), "");
  EXPECT_THAT(console.takeErr().cStr(), HasSubstr("warning: Kubernetes 1.35.4 may break"));
  EXPECT_EQ(cluster.log, kOrder);
}

// Catches: a new object of the release that a dry run does not show; an upgrade that ends before
// this object exists.
TEST_F(UpgradeK8sRuns, NewObjectsOfTheManifestsAreWaitedFor) {
  ModelCluster cluster("1.34.4", timer);
  cluster.objects.push_back({"later", ObjectChange()});
  cluster.missingLooks = 3;
  EXPECT_EQ(upgrade(cluster, false, true), "");
  EXPECT_THAT(console.takeOut().cStr(),
              EndsWith("would be updating manifests\n > Deployment later (new)\n"));
  EXPECT_EQ(upgrade(cluster), "");
  EXPECT_EQ(cluster.missingLooks, 0u);
  EXPECT_THAT(console.takeErr().cStr(),
              HasSubstr("retrying error: Deployment later is not there yet\n"));
  cluster.missingLooks = 1000;
  EXPECT_THAT(upgrade(cluster), HasSubstr("Deployment later to be as the manifests want it"));
}

// Catches: etcd members whose disks are all busy at once; a registry that a hundred nodes call at
// once; a node that pulls nothing.
TEST_F(UpgradeK8sRuns, ControlPlanesPullOneByOneAndWorkersAFewAtATime) {
  ModelCluster cluster("1.34.4", timer);
  for (unsigned i = 0; i < 12; ++i) {
    auto& like = cluster.state.nodes[1];
    NodeState more;
    more.name = kj::str("w", i);
    more.address = kj::str("10.5.1.", i);
    more.kubelet = kj::str(like.kubelet);
    more.kubeletVersion = kj::str(like.kubeletVersion);
    cluster.run(more, KubernetesPart::kKubelet) = {kj::str(more.kubelet), kj::str(more.kubelet), 2,
                                                   0};
    cluster.state.nodes.add(kj::mv(more));
  }
  EXPECT_EQ(upgrade(cluster), "");
  EXPECT_EQ(cluster.mostControl, 1u);
  EXPECT_EQ(cluster.mostWorkers, kMostPulling);
  for (auto& node : cluster.state.nodes) {
    EXPECT_THAT(cluster.pulled, HasSubstr(kj::str(node.address, " ghcr.io").cStr()));
  }
}

std::pair<std::string, ObjectChange> changed(std::string name, kj::StringPtr diff,
                                             kj::StringPtr kept = "") {
  ObjectChange change;
  change.changes = diff.size() > 0;
  change.diff = kj::str(diff);
  if (kept.size() > 0) change.kept.add(kj::str(kept));
  return {name, kj::mv(change)};
}

// Catches: an object that keeps its form of the old release; an object that is changed by a dry
// run, or from the config before the upgrade; a run that ends before the object's pods exist.
TEST_F(UpgradeK8sRuns, ObjectsOfTheManifestsFollow) {
  ModelCluster cluster("1.34.4", timer);
  cluster.objects.push_back(changed("flannel", ""));
  cluster.objects.push_back(changed("coredns", "-image: a\n+image: b\n", ".spec.replicas by x"));
  EXPECT_EQ(upgrade(cluster, false, true), "");
  EXPECT_THAT(console.takeOut().cStr(), EndsWith("would be updating manifests\n"
                                                 " > Deployment coredns\n"
                                                 "-image: a\n"
                                                 "+image: b\n"));
  EXPECT_THAT(console.takeErr().cStr(),
              EndsWith("Deployment coredns: .spec.replicas by x stays\n"));
  EXPECT_EQ(cluster.log, "");
  EXPECT_EQ(cluster.manifestsOf, "10.5.0.2 with 5\n");
  EXPECT_EQ(cluster.rollouts, 0u);

  EXPECT_EQ(upgrade(cluster), "");
  EXPECT_THAT(console.takeOut().cStr(),
              EndsWith("updating daemonset \"kube-proxy\" to version \"1.35.4\"\n"));
  auto err = std::string(console.takeErr().cStr());
  EXPECT_THAT(err, HasSubstr("\nupdating manifests\n > Deployment coredns\n"));
  EXPECT_THAT(err, HasSubstr("retrying error: 1 of 2 pods are updated, 2 available\n"));
  EXPECT_EQ(cluster.log, std::string(kOrder) + "object coredns\n");

  EXPECT_EQ(upgrade(cluster, true), "");
  EXPECT_THAT(console.takeOut().cStr(),
              EndsWith("{\"component\":\"manifests\",\"object\":\"Deployment coredns\","
                       "\"result\":\"updated\"}\n"));
  console.takeErr();
  cluster.earlierVersion = true;
  EXPECT_EQ(upgrade(cluster), "");
  EXPECT_THAT(console.takeErr().cStr(),
              HasSubstr("10.5.0.2 is of an earlier version and does not say"));
}

}  // namespace
}  // namespace talos::talosctl
