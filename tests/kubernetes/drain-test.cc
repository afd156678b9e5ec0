// Nodes out of service and back, as a user does it: drained by talosctl, with settings that come
// and go with their config, and erased and joined again under their name.
#include <gmock/gmock.h>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;

constexpr double kNodeUp = 420, kPodsUp = 240, kGone = 120;
constexpr const char *kMasterName = "out-master-1", *kWorkerName = "out-worker-1",
                     *kWorkerAddress = "10.5.0.3";

// A pod without a controller that would create it again.
constexpr const char* kBare = R"(apiVersion: v1
kind: Pod
metadata: {name: bare}
spec:
  nodeName: out-worker-1
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "busybox:1.37", command: [sleep, "100000"]}]
)";

std::string workerObject(const KubeCluster& cluster, const std::string& path) {
  return cluster
      .kubectl({"get", "node", kWorkerName, "--request-timeout=5s", "-o", "jsonpath=" + path})
      .out;
}

struct NodesOutOfService : public KubeHost {
  ~NodesOutOfService() noexcept override {}
};

// Catches: a refused drain that ends pods all the same; a PodDisruptionBudget that is violated, or
// not named; a drain that does not continue when the budget allows it; a node that is not back.
void isDrained(const KubeCluster& cluster) {
  cluster.apply(guardedByABudget("kept", kWorkerName) + "---\n" + kBare);
  cluster.awaitPods("default", "app=kept", 1, kPodsUp);
  ASSERT_EQ(cluster.placesOf("app=kept"), std::string(kWorkerName) + " ");
  auto refused = cluster.talos.talosctl({"drain", kWorkerName});
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.out, std::string("node/") + kWorkerName + " cordoned\n");
  EXPECT_THAT(refused.err, HasSubstr("cannot delete DaemonSet-managed Pods (use "
                                     "--ignore-daemonsets to ignore): kube-system/"));
  EXPECT_THAT(refused.err, HasSubstr("use --force to override): default/bare"));
  EXPECT_EQ(workerObject(cluster, "{.spec.unschedulable}"), "true");
  EXPECT_EQ(cluster.placesOf("app=kept"), std::string(kWorkerName) + " ");

  auto late = cluster.talos.talosctl({"-n", kWorkerAddress, "drain", "--ignore-daemonsets",
                                      "--force", "--delete-emptydir-data", "--timeout", "15s"});
  EXPECT_EQ(late.status, 1);
  EXPECT_THAT(late.err, HasSubstr("PodDisruptionBudget default/kept, refused since 20"));
  EXPECT_THAT(late.err, HasSubstr("pod/bare evicted\n"));
  EXPECT_THAT(late.err, HasSubstr("not all pods have left within 15s: default/kept-"));
  EXPECT_EQ(cluster.placesOf("app=kept"), std::string(kWorkerName) + " ") << "the budget keeps it";

  harness::Background drain(cluster.talos.command(
      {"drain", kWorkerName, "--ignore-daemonsets", "--delete-emptydir-data", "-o", "json"}));
  EXPECT_TRUE(drain.waitFor(
      [](auto& out, auto&) { return contains(out, R"("budgets":["default/kept"])"); }, kGone))
      << drain.out() << drain.err();
  cluster.ok({"delete", "pdb", "kept"});
  EXPECT_TRUE(eventually(
      [&] { return cluster.placesOf("app=kept") == std::string(kMasterName) + " "; }, kGone, 0.5));
  EXPECT_EQ(drain.finish(kGone), 0);
  EXPECT_THAT(drain.out(), HasSubstr(R"("result":"drained")")) << drain.err();
  EXPECT_EQ(cluster.talos.ok({"uncordon", kWorkerAddress}),
            std::string("node/") + kWorkerName + " uncordoned\n");
  EXPECT_EQ(workerObject(cluster, "{.spec.unschedulable}"), "");
}

// Catches: a setting that stays after it was removed from the config; a user's setting that is
// removed.
void followsItsConfig(const KubeCluster& cluster) {
  auto& worker = cluster.nodes.back();
  auto patch = [&](const std::string& operations) {
    cluster.talos.ok(cluster.at(worker, {"patch", "mc", "--mode=no-reboot", "-p", operations}));
  };
  cluster.ok({"label", "node", kWorkerName, "rack=r17"});
  cluster.ok({"annotate", "node", kWorkerName, "owner=somebody"});
  patch(R"([{"op": "add", "path": "/machine/nodeLabels", "value": {"disk": "fast"}},
            {"op": "add", "path": "/machine/nodeAnnotations", "value": {"contact": "Jo, room 17"}}])");
  const std::string settings =
      "{.metadata.labels.disk},{.metadata.annotations.contact},{.metadata.labels.rack},"
      "{.metadata.annotations.owner}";
  EXPECT_TRUE(eventually(
      [&] { return workerObject(cluster, settings) == "fast,Jo, room 17,r17,somebody"; }, 60))
      << workerObject(cluster, settings);
  patch(R"([{"op": "remove", "path": "/machine/nodeLabels"},
            {"op": "remove", "path": "/machine/nodeAnnotations"}])");
  EXPECT_TRUE(eventually([&] { return workerObject(cluster, settings) == ",,r17,somebody"; }, 60))
      << workerObject(cluster, settings);
  patch(R"([{"op": "add", "path": "/machine/nodeLabels", "value": {"disk": "fast"}}])");
  EXPECT_TRUE(
      eventually([&] { return workerObject(cluster, settings) == "fast,,r17,somebody"; }, 60));
}

// Catches: a machine without data that does not get its name back; a node that keeps settings of
// its previous config, or that takes pods although a user has cordoned it; a kubelet whose
// certificates are not accepted; pods that do not come back.
void joinsAnew(const KubeCluster& cluster) {
  EXPECT_EQ(cluster.talos.ok({"cordon", kWorkerName}),
            std::string("node/") + kWorkerName + " cordoned\n");
  auto uid = workerObject(cluster, "{.metadata.uid}");
  auto machine = workerObject(cluster, "{.status.nodeInfo.machineID}");
  auto boot = workerObject(cluster, "{.status.nodeInfo.bootID}");
  ASSERT_NE(machine, "");
  cluster.talos.ok({"-n", kWorkerAddress, "reset", "--yes", "--reboot"}, kNodeUp);
  EXPECT_TRUE(eventually(
      [&] {
        auto now = workerObject(cluster, "{.status.nodeInfo.machineID}");
        return now != "" && now != machine &&
               workerObject(cluster, "{.status.nodeInfo.bootID}") != boot;
      },
      kNodeUp, 0.5))
      << cluster.overview();
  cluster.awaitReady(2, kNodeUp);
  cluster.awaitPods("kube-system", "k8s-app=flannel", 2, kPodsUp);
  EXPECT_EQ(workerObject(cluster, "{.metadata.uid}"), uid) << "the same object";
  // The node has its first config again.
  EXPECT_TRUE(eventually(
      [&] {
        return workerObject(cluster, "{.metadata.labels.disk},{.metadata.labels.rack}") == ",r17";
      },
      60));
  EXPECT_EQ(workerObject(cluster, "{.spec.unschedulable}"), "true") << "a user has cordoned it";
  cluster.talos.ok({"uncordon", kWorkerName});

  cluster.ok({"delete", "pod", "-l", "app=kept"}, kGone);
  EXPECT_TRUE(eventually(
      [&] { return cluster.placesOf("app=kept") == std::string(kWorkerName) + " "; }, kGone, 0.5));
  cluster.awaitPods("default", "app=kept", 1, kPodsUp);
  // This call needs the kubelet's serving certificate.
  EXPECT_EQ(cluster.ok({"logs", "-l", "app=kept"}), "up\n");
}

// Catches: a node that has left for good and stays in Kubernetes; a node that is removed and not
// reset; a kubelet that creates its object again.
void goesForGood(const KubeCluster& cluster) {
  auto keeps = cluster.talos.talosctl({"-n", kWorkerAddress, "reset", "--yes", "--reboot",
                                       "--system-labels-to-wipe", "EPHEMERAL", "--remove-node"});
  EXPECT_EQ(keeps.status, 1);
  EXPECT_THAT(keeps.err, HasSubstr("one that keeps STATE joins again"));
  EXPECT_NE(workerObject(cluster, "{.metadata.uid}"), "");
  auto reset =
      cluster.talos.talosctl({"-n", kWorkerAddress, "reset", "--yes", "--remove-node"}, kNodeUp);
  EXPECT_EQ(reset.status, 0) << reset.err;
  EXPECT_THAT(reset.err, HasSubstr("is removed from Kubernetes, where it is out-worker-1"));
  EXPECT_EQ(cluster.ok({"get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"}), kMasterName);
}

TEST_F(NodesOutOfService, AWorkerIsDrainedJoinsAnewAndGoes) {
  KubeCluster cluster("out", 1, 1);
  cluster.awaitReady(2, kNodeUp);
  cluster.awaitPods("kube-system", "k8s-app=flannel", 2, kPodsUp);
  if (HasFailure()) return;
  isDrained(cluster);
  if (HasFailure()) return;
  followsItsConfig(cluster);
  if (HasFailure()) return;
  joinsAnew(cluster);
  if (HasFailure()) return;
  goesForGood(cluster);
}

}  // namespace
}  // namespace talos
