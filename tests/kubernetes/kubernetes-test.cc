// Kubernetes for real: programs as upstream has them, an untouched kubectl, nodes in containers
// that pull every image from a registry.
#include <gmock/gmock.h>

#include <regex>
#include <set>
#include <sstream>

#include "tests/container/host-state.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;

// Seconds, from an empty store on a busy machine with two processors.
constexpr double kUp = 420, kPods = 240;

// A server on each node that says where it runs, and a name for all of them.
constexpr const char* kWeb = R"(apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: busybox:1.37
        command: [sh, -c, "mkdir /tmp/w; echo $NODE >/tmp/w/index.html; echo serving; exec httpd -f -p 8080 -h /tmp/w"]
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
)";

struct Pod {
  std::string name, node, address;
};
std::vector<Pod> webPods(const KubeCluster& cluster) {
  auto text = cluster.ok({"get", "pods", "-l", "app=web", "-o",
                          "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} "
                          "{.status.podIP}{\"\\n\"}{end}"});
  std::vector<Pod> pods;
  for (auto& line : harness::lines(text)) {
    std::istringstream words(line);
    Pod pod;
    if (words >> pod.name >> pod.node >> pod.address) pods.push_back(pod);
  }
  return pods;
}

// What a pod gets from there.
std::string fetched(const KubeCluster& cluster, const Pod& from, const std::string& url) {
  auto result = cluster.kubectl({"exec", from.name, "--", "wget", "-q", "-T", "3", "-O", "-", url});
  return result.status == 0 ? result.out : "error: " + result.err;
}

// How often containers of pods were started, by pod.
std::set<std::string> restarts(const KubeCluster& cluster) {
  auto lines = cluster.each("pods", "{.metadata.name} {.status.containerStatuses[*].restartCount}");
  return {lines.begin(), lines.end()};
}

// The kubelet that was started last on this node; empty when none runs.
std::string kubelet(const KubeCluster& cluster, const std::string& node) {
  auto shown = cluster.talos.talosctl({"-n", node, "service", "kubelet"}).out;
  static const std::regex started(R"(STATE +Running[^]*?Started task kubelet \(PID (\d+)\))");
  std::smatch match;
  return std::regex_search(shown, match, started) ? match[1].str() : std::string();
}

// All that it is to say when a cluster is well, in this order; scripts match it.
constexpr const char* kHealthy =
    "discovered nodes: control plane: [\"10.5.0.2\"], worker: [\"10.5.0.3\"]\n"
    "waiting for etcd to be healthy: ...\n"
    "waiting for etcd to be healthy: OK\n"
    "waiting for bootkube to finish: ...\n"
    "waiting for bootkube to finish: OK\n"
    "waiting for apid to be ready: ...\n"
    "waiting for apid to be ready: OK\n"
    "waiting for kubelet to be healthy: ...\n"
    "waiting for kubelet to be healthy: OK\n"
    "waiting for all nodes to finish boot sequence: ...\n"
    "waiting for all nodes to finish boot sequence: OK\n"
    "waiting for all k8s nodes to report: ...\n"
    "waiting for all k8s nodes to report: OK\n"
    "waiting for all k8s nodes to report ready: ...\n"
    "waiting for all k8s nodes to report ready: OK\n"
    "waiting for all control plane components to be ready: ...\n"
    "waiting for all control plane components to be ready: OK\n"
    "waiting for kube-proxy to report ready: ...\n"
    "waiting for kube-proxy to report ready: OK\n"
    "waiting for coredns to report ready: ...\n"
    "waiting for coredns to report ready: OK\n"
    "waiting for all k8s nodes to report schedulable: ...\n"
    "waiting for all k8s nodes to report schedulable: OK\n";

// Catches: a check that a cluster which is well does not pass, by either way; a trouble that is not
// told; a kubeconfig that two people share, or that kubectl does not accept.
void checkHealth(const KubeCluster& cluster) {
  auto health = cluster.talos.talosctl({"-n", "10.5.0.2", "health"}, 120);
  EXPECT_EQ(health.status, 0);
  EXPECT_EQ(health.err, kHealthy);
  auto direct = cluster.inside({"--wait-timeout=60s", "--server=false"});
  EXPECT_EQ(direct.status, 0) << direct.err;
  EXPECT_EQ(direct.err, kHealthy);
  auto worker = cluster.talos.talosctl({"-n", "10.5.0.3", "health"}, 60);
  EXPECT_EQ(worker.status, 1);
  EXPECT_THAT(worker.err, HasSubstr("this node is a worker"));

  cluster.ok({"cordon", "kube-worker-1"});
  auto cordoned = cluster.talos.talosctl({"-n", "10.5.0.2", "health", "--wait-timeout=1s"}, 60);
  EXPECT_EQ(cordoned.status, 1);
  EXPECT_THAT(cordoned.err, HasSubstr("timed out waiting for all k8s nodes to report schedulable: "
                                      "unschedulable: [\"kube-worker-1\"]"));
  cluster.ok({"uncordon", "kube-worker-1"});

  std::set<std::string> keys;
  for (auto name : {"/first", "/second"}) {
    auto path = cluster.talos.folder() + name;
    cluster.talos.ok({"-n", "10.5.0.2", "kubeconfig", "--merge=false", path});
    auto config = harness::slurp(path);
    auto at = config.find("client-key-data: ");
    ASSERT_NE(at, std::string::npos);
    keys.insert(config.substr(at, 200));
    EXPECT_THAT(cluster.ok({"--kubeconfig", path, "auth", "whoami"}), HasSubstr("system:masters"));
  }
  EXPECT_EQ(keys.size(), 2u);
}

void checkPodNetwork(const KubeCluster& cluster) {
  auto pods = webPods(cluster);
  ASSERT_GE(pods.size(), 2u);
  for (auto& from : pods) {
    for (auto& to : pods) {
      // A kubelet that was just started learns of its pods first.
      std::string got;
      bool answered = eventually(
          [&] {
            got = fetched(cluster, from, "http://" + to.address + ":8080/");
            return got == to.node + "\n";
          },
          60, 0.5);
      EXPECT_TRUE(answered) << "from " << from.node << " to " << to.node << ": " << got;
    }
    // By name, until each of them has answered: DNS, and a Service that chooses.
    std::set<std::string> answered;
    bool all = eventually(
        [&] {
          answered.insert(fetched(cluster, from, "http://web.default.svc.cluster.local/"));
          size_t known = 0;
          for (auto& pod : pods) known += answered.count(pod.node + "\n");
          return known == pods.size();
        },
        60, 0.1);
    EXPECT_TRUE(all) << "from " << from.node << ": " << testing::PrintToString(answered);
  }
}

// All that a cluster begins with, on each of its nodes.
void awaitSystem(const KubeCluster& cluster, size_t masters, size_t nodes) {
  cluster.awaitReady(nodes, kUp);
  for (auto part : {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}) {
    cluster.awaitPods("kube-system", std::string("k8s-app=") + part, masters, kPods);
  }
  cluster.awaitPods("kube-system", "k8s-app=kube-proxy", nodes, kPods);
  cluster.awaitPods("kube-system", "k8s-app=flannel", nodes, kPods);
  cluster.awaitPods("kube-system", "k8s-app=kube-dns", 2, kPods);
}

// Catches: a cluster that does not come up from nothing, one whose pods cannot reach each other, a
// name that does not resolve; a kubelet, or what it does, that is not there after its death; a node
// that changes its host.
TEST_F(KubeHost, OneControlPlaneAndOneWorker) {
  auto host = HostState::now();
  {
    KubeCluster cluster("kube", 1, 1, {"--wait-kubernetes", "--skip-kubeconfig"});
    EXPECT_THAT(cluster.talos.creation().err,
                HasSubstr("waiting for all k8s nodes to report schedulable: OK\n"));
    awaitSystem(cluster, 1, 2);
    if (HasFailure()) return;
    checkHealth(cluster);
    EXPECT_THAT(cluster.ok({"version"}), HasSubstr("Server Version: v1."));
    cluster.apply(kWeb);
    cluster.awaitPods("default", "app=web", 2, kPods);
    if (HasFailure()) return;
    checkPodNetwork(cluster);
    EXPECT_EQ(cluster.ok({"logs", webPods(cluster)[0].name}), "serving\n");

    // The kubelet's death is nobody else's.
    auto started = restarts(cluster);
    ASSERT_GE(started.size(), 8u) << "pods of the system are missing";
    for (auto node : {"10.5.0.2", "10.5.0.3"}) {
      auto before = kubelet(cluster, node);
      ASSERT_NE(before, "") << node;
      cluster.talos.ok({"-n", node, "service", "kubelet", "restart"});
      EXPECT_TRUE(eventually(
          [&] {
            auto now = kubelet(cluster, node);
            return now != "" && now != before;
          },
          60))
          << node;
    }
    cluster.awaitReady(2, 60);
    checkPodNetwork(cluster);
    EXPECT_EQ(restarts(cluster), started);
  }
  EXPECT_THAT(differences(host, HostState::now()), testing::IsEmpty());
}

// Catches: control planes that do not share a cluster, an endpoint that is not shared, a node that
// is not back after a reboot, or with pods that were never told to end.
TEST_F(KubeHost, ThreeControlPlanesAndTwoWorkers) {
  KubeCluster cluster("kube3", 3, 2, {"--use-vip"});
  awaitSystem(cluster, 3, 5);
  cluster.apply(kWeb);
  cluster.awaitPods("default", "app=web", 5, kPods);
  if (HasFailure()) return;
  checkPodNetwork(cluster);
  for (auto node : {"10.5.0.6", "10.5.0.3"}) {
    auto bootId = [&] {
      return cluster.talos
          .talosctl({"-n", node, "--timeout", "5s", "read", "/proc/sys/kernel/random/boot_id"}, 20)
          .out;
    };
    auto before = bootId();
    ASSERT_NE(before, "") << node;
    cluster.talos.ok({"-n", node, "reboot"}, kUp);
    EXPECT_TRUE(eventually(
        [&] {
          auto now = bootId();
          return now != "" && now != before;
        },
        kUp, 0.5))
        << node;
    awaitSystem(cluster, 3, 5);
    cluster.awaitPods("default", "app=web", 5, kPods);
  }
  checkPodNetwork(cluster);
}

}  // namespace
}  // namespace talos
