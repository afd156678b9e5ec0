// Two of three control-plane nodes are lost with their disks, and new machines take their place:
// the data that a snapshot brings back with one command, and the state of the pods.
#include <gmock/gmock.h>

#include <chrono>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using testing::HasSubstr;

constexpr double kRecovered = 900;
constexpr const char* kWorker = "lost-worker-1";

constexpr const char* kWeb = R"(apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "busybox:1.37", command: [sleep, "100000"]}]
)";

struct ControlPlaneRecovery : public KubeHost {
  ~ControlPlaneRecovery() noexcept override {}
};

std::string joined(const std::vector<std::string>& all) {
  std::string text;
  for (auto& one : all) text += (text.empty() ? "" : ",") + one;
  return text;
}

// Begin and name of each pod of `web`.
std::string webPods(const KubeCluster& cluster) {
  return cluster.ok({"get", "pods", "-l", "app=web", "-o",
                     "jsonpath={range .items[*]}{.metadata.name} "
                     "{.status.containerStatuses[0].state.running.startedAt} {end}"});
}

}  // namespace

// Catches: objects that the recovery loses; a survivor whose old data meets the new cluster; pods
// of a worker that end because the control plane has another etcd; nodes that do not come back.
TEST_F(ControlPlaneRecovery, TwoOfThreeAreReplacedByNewMachines) {
  KubeCluster cluster("lost", 3, 1);
  cluster.awaitReady(4, kClusterUp);
  cluster.apply(kWeb);
  cluster.awaitPods("default", "app=web", 2, kPodsUp);
  cluster.ok({"create", "configmap", "before", "--from-literal=a=b"});
  if (HasFailure()) return;
  auto pods = webPods(cluster);
  EXPECT_EQ(cluster.placesOf("app=web"), std::string(kWorker) + " " + kWorker + " ");
  auto snapshot = cluster.talos.folder() + "/etcd.db";
  cluster.talos.ok(cluster.at(cluster.nodes[0], {"etcd", "snapshot", snapshot}), 60);
  cluster.ok({"create", "configmap", "after", "--from-literal=a=b"});

  std::vector<std::string> addresses, endpoints;
  for (unsigned i = 0; i < 3; ++i) {
    auto& node = cluster.nodes[i];
    addresses.push_back(node.address);
    endpoints.push_back(cluster.talos.endpoint(node.address));
    if (i > 0) cluster.talos.ok({"cluster", "node", "kill", node.name}, 120);
  }
  for (unsigned i = 1; i < 3; ++i) {
    cluster.talos.erase(cluster.nodes[i].name);
    cluster.talos.ok({"cluster", "node", "start", cluster.nodes[i].name}, 120);
  }
  for (unsigned i = 1; i < 3; ++i) {
    auto status = cluster.at(cluster.nodes[i], {"--timeout", "5s", "get", "etcdstatus"});
    EXPECT_TRUE(harness::eventually(
        [&] { return contains(cluster.talos.talosctl(status).out, "waiting"); }, kClusterUp, 0.5));
  }
  auto begun = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  };
  auto recover = cluster.talos.talosctl(
      {"-e", joined(endpoints), "-n", joined(addresses), "cluster", "recover", snapshot, "--yes"},
      kRecovered);
  ASSERT_EQ(recover.status, 0) << recover.out << recover.err;
  auto etcd = seconds();
  EXPECT_THAT(recover.out, HasSubstr("etcd is recovered: 3 voters"));
  EXPECT_THAT(recover.err, HasSubstr("newer than the snapshot"));
  cluster.awaitReady(4, kClusterUp);
  printf("etcd after %.0f s, all nodes Ready after %.0f s\n", etcd, seconds());
  cluster.awaitPods("default", "app=web", 2, kPodsUp);
  EXPECT_EQ(webPods(cluster), pods) << "the worker's pods were started again";
  EXPECT_EQ(cluster.ok({"get", "configmap", "before", "-o", "jsonpath={.data.a}"}), "b");
  EXPECT_THAT(cluster.kubectl({"get", "configmap", "after"}).err, HasSubstr("not found"));
  cluster.ok({"create", "configmap", "again", "--from-literal=a=b"});
  auto health = cluster.inside({});
  EXPECT_EQ(health.status, 0) << health.out << health.err;
}

}  // namespace talos
