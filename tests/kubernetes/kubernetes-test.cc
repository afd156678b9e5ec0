// Kubernetes for real: programs as upstream has them, an untouched kubectl, nodes in containers
// that pull every image from a registry.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "tests/harness/host-state.h"
#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;

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
  EXPECT_EQ(direct.err, std::string("asking Kubernetes at 10.5.0.2:6443\n") + kHealthy);
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

// Three servers that the scheduler places, served by one address and by a port of every node.
constexpr const char* kReplicas = R"(apiVersion: apps/v1
kind: Deployment
metadata: {name: three}
spec:
  replicas: 3
  selector: {matchLabels: {app: three}}
  template:
    metadata: {labels: {app: three}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: busybox:1.37
        command: [sh, -c, "mkdir /tmp/w; echo $POD >/tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w"]
        env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: three}
spec: {type: NodePort, selector: {app: three}, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
)";

// Each of the replicas answers programs of each node, at the Service's address and at the nodes'.
void checkReplicas(const KubeCluster& cluster) {
  cluster.apply(kReplicas);
  cluster.awaitPods("default", "app=three", 3, kPodsUp);
  std::set<std::string> all;
  for (auto& line :
       harness::lines(cluster.ok({"get", "pods", "-l", "app=three", "-o",
                                  "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}"}))) {
    all.insert(line + "\n");
  }
  ASSERT_EQ(all.size(), 3u);
  auto service = cluster.ok({"get", "service", "three", "-o", "jsonpath={.spec.clusterIP}"});
  for (auto& from : cluster.nodes) {
    std::vector<std::pair<std::string, unsigned>> places = {{service, 80}};
    for (auto& to : cluster.nodes) places.emplace_back(to.address, 30080);
    for (auto& [address, port] : places) {
      std::set<std::string> answered;
      EXPECT_TRUE(eventually(
          [&] {
            auto who = cluster.fetched(cluster.talos.process(from.name), address, port);
            if (!who.empty()) answered.insert(who);
            return answered == all;
          },
          60))
          << "from " << from.name << " at " << address << ": " << testing::PrintToString(answered);
    }
  }
}

// Forwards a port to a pod on each node, through its kubelet.
void checkPortForward(const KubeCluster& cluster) {
  for (auto& pod : webPods(cluster)) {
    std::vector<std::string> words = {
        "nsenter", "--net=/proc/" + std::to_string(cluster.segment()) + "/ns/net"};
    auto kubectl = cluster.kubectlCommand(
        {"port-forward", "--address", "10.5.0.1", "pod/" + pod.name, "18080:8080"});
    words.insert(words.end(), kubectl.begin(), kubectl.end());
    harness::Background forward(words);
    ASSERT_TRUE(forward.waitFor(
        [](auto& out, auto&) { return contains(out, "Forwarding from 10.5.0.1:18080"); }, 30))
        << pod.node << forward.err();
    EXPECT_EQ(cluster.fetched(cluster.segment(), "10.5.0.1", 18080), pod.node + "\n");
  }
}

// The rights of a worker's kubelet with its own certificate, read from the node's disk as a thief
// would.
void checkKubeletRights(const KubeCluster& cluster) {
  auto &worker = cluster.nodes.back(), &other = cluster.nodes.front();
  for (auto& node : {worker, other}) {
    cluster.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: of-" + node.name +
                  "}\nstringData: {word: " + node.name +
                  "}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: has-" + node.name +
                  "}\nspec:\n  nodeName: " + node.name +
                  "\n  terminationGracePeriodSeconds: 0\n  containers:\n  - {name: main, image: "
                  "'busybox:1.37', command: [sleep, '100000']}\n  volumes:\n"
                  "  - {name: it, secret: {secretName: of-" +
                  node.name + "}}\n");
  }
  auto root = "/proc/" + std::to_string(cluster.talos.process(worker.name)) + "/root";
  auto current = root + "/var/lib/kubelet/pki/kubelet-client-current.pem";
  // A path of the node, or one beside the link.
  auto pair = root + (std::filesystem::path("/var/lib/kubelet/pki") /
                      std::filesystem::read_symlink(current))
                         .string();
  cluster.ok({"config", "set-credentials", "kubelet", "--client-certificate=" + pair,
              "--client-key=" + pair});
  cluster.ok({"config", "set-context", "kubelet", "--user=kubelet",
              "--cluster=" + cluster.ok({"config", "view", "-o", "jsonpath={.clusters[0].name}"})});
  auto asKubelet = [&](std::vector<std::string> words) {
    words.push_back("--context=kubelet");
    return cluster.kubectl(words);
  };
  auto whoami = asKubelet({"auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"});
  ASSERT_EQ(whoami.out, "system:node:" + worker.name) << whoami.err;
  auto secretOf = [](const KubeNode& node) {
    return std::vector<std::string>{"get", "secret", "of-" + node.name, "-o",
                                    "jsonpath={.data.word}"};
  };
  EXPECT_TRUE(eventually([&] { return asKubelet(secretOf(worker)).status == 0; }, 60))
      << "it cannot even read what its own pods need";
  auto refused = [&](const char* what, std::vector<std::string> words) {
    auto result = asKubelet(std::move(words));
    EXPECT_NE(result.status, 0) << what << ": " << result.out;
    EXPECT_THAT(result.err, HasSubstr("orbidden")) << what;
  };
  refused("a Secret of another node's pod", secretOf(other));
  refused("all Secrets", {"get", "secrets"});
  refused("a label of another node", {"label", "node", other.name, "stolen=yes"});
  refused("a label that says what may run on the node",
          {"label", "node", worker.name, "node-restriction.kubernetes.io/trusted=yes"});
  refused("rights", {"create", "clusterrolebinding", "mine", "--clusterrole=cluster-admin",
                     "--user=system:node:" + worker.name});
  EXPECT_EQ(asKubelet({"label", "node", worker.name, "own=yes"}).status, 0) << "a label of its own";
}

// Labels that a worker's config gets after it has joined, and loses again; a taint, which it may
// not give itself.
void checkWorkerSettings(const KubeCluster& cluster) {
  auto& worker = cluster.nodes.back();
  auto patch = [&](const std::string& operations) {
    cluster.talos.ok(cluster.at(worker, {"patch", "mc", "--mode=no-reboot", "-p", operations}));
  };
  auto object = [&](const std::string& path) {
    return cluster.ok({"get", "node", worker.name, "-o", "jsonpath=" + path});
  };
  patch(R"([{"op": "add", "path": "/machine/nodeLabels", "value": {"disk": "fast"}}])");
  EXPECT_TRUE(eventually([&] { return object("{.metadata.labels.disk}") == "fast"; }, 60));
  patch(R"([{"op": "remove", "path": "/machine/nodeLabels"},
            {"op": "add", "path": "/machine/nodeTaints", "value": {"gpu": "yes:NoSchedule"}}])");
  EXPECT_TRUE(eventually([&] { return object("{.metadata.labels.disk}") == ""; }, 60));
  EXPECT_EQ(object("{.spec.taints}"), "");
  auto status = [&] { return cluster.talos.ok(cluster.at(worker, {"get", "nodestatus"})); };
  auto command = "kubectl taint --overwrite nodes " + worker.name + " gpu=yes:NoSchedule";
  EXPECT_TRUE(eventually([&] { return status().find(command) != std::string::npos; }, 60))
      << status();
  cluster.ok({"taint", "--overwrite", "nodes", worker.name, "gpu=yes:NoSchedule"});
  EXPECT_TRUE(eventually([&] { return status().find("true") != std::string::npos; }, 60))
      << status();
  patch(R"([{"op": "remove", "path": "/machine/nodeTaints"}])");
  command = "kubectl taint --overwrite nodes " + worker.name + " gpu:NoSchedule-";
  EXPECT_TRUE(eventually([&] { return status().find(command) != std::string::npos; }, 60))
      << status();
  cluster.ok({"taint", "--overwrite", "nodes", worker.name, "gpu:NoSchedule-"});
}

// The lines that the documents print of a fresh control plane, right after its first boot.
void checkDocumentsLines(const KubeCluster& cluster) {
  auto first = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"-n", "10.5.0.2"});
    return cluster.talos.ok(words);
  };
  auto log = first({"logs", "controller-runtime"});
  for (auto line :
       {"  k8s.ManifestApplyController: controller starting\n",
        "  v1alpha1.BootstrapStatusController: controller starting\n",
        "  v1alpha1.BootstrapStatusController: bootkube initialized status not found\n",
        "  k8s.KubeletStaticPodController: writing static pod "
        "\"/etc/kubernetes/manifests/talos-kube-apiserver.yaml\"\n",
        "  k8s.ManifestApplyController: controller failed: ",
        "  k8s.KubeletStaticPodController: controller failed: error refreshing pod status: error "
        "fetching pod status: ",
        "  k8s.ManifestApplyController: created rbac.authorization.k8s.io/v1/ClusterRole/"}) {
    EXPECT_THAT(log, HasSubstr(line));
  }
  EXPECT_THAT(first({"service", "kubelet"}),
              HasSubstr("Health check failed: Get \"http://127.0.0.1:10248/healthz\": dial tcp "
                        "127.0.0.1:10248: connect: connection refused"));
  EXPECT_THAT(first({"get", "staticpods", "kube-apiserver", "-o", "yaml"}),
              HasSubstr("    finalizers:\n        - k8s.StaticPodStatus(\"kube-apiserver\")\n"));
  auto status =
      first({"get", "staticpodstatus", "kube-system/kube-apiserver-kube-master-1", "-o", "yaml"});
  for (auto part : {"    id: kube-system/kube-apiserver-kube-master-1\n", "    phase: Running\n",
                    "    containerStatuses:\n", " ready: true\n"}) {
    EXPECT_THAT(status, HasSubstr(part));
  }
  EXPECT_THAT(first({"get", "member", "kube-master-1", "-o", "json"}),
              HasSubstr("\"machineType\": \"controlplane\""));
  EXPECT_THAT(first({"get", "member", "kube-worker-1", "-o", "json"}),
              HasSubstr("\"machineType\": \"worker\""));
}

// Catches: a cluster that does not come up from nothing, a control plane that takes workloads, or
// whose pods cannot reach each other, a name that does not resolve; a Service that programs of a
// node cannot reach; a kubelet whose certificate is good for more than its own node; a kubelet, or
// its effects, missing after its death; settings of a worker that have no effect; a node that
// changes its host.
TEST_F(KubeHost, OneControlPlaneAndOneWorker) {
  HostUnchanged host;
  KubeCluster cluster("kube", 1, 1, {"--wait-kubernetes"});
  EXPECT_THAT(cluster.talos.creation().err,
              HasSubstr("waiting for all k8s nodes to report schedulable: OK\n"));
  cluster.awaitSystem();
  if (HasFailure()) return;
  checkDocumentsLines(cluster);
  checkHealth(cluster);
  EXPECT_THAT(cluster.ok({"version"}), HasSubstr("Server Version: v1."));
  EXPECT_THAT(
      cluster.each("nodes", "{.metadata.name} {.spec.taints[*].key}:{.spec.taints[*].effect}"),
      testing::UnorderedElementsAre(
          "kube-master-1 node-role.kubernetes.io/control-plane:NoSchedule", "kube-worker-1 :"));
  cluster.apply(kWebServers);
  cluster.awaitPods("default", "app=web", 2, kPodsUp);
  if (HasFailure()) return;
  checkPodNetwork(cluster);
  EXPECT_EQ(cluster.ok({"logs", webPods(cluster)[0].name}), "serving\n");
  checkPortForward(cluster);
  checkReplicas(cluster);
  checkKubeletRights(cluster);
  checkWorkerSettings(cluster);

  // The kubelet's death restarts no pod.
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

// Catches: control planes that do not share a cluster, an endpoint that is not shared, a node that
// is not back after a reboot, or with pods that were never told to end.
TEST_F(KubeHost, ThreeControlPlanesAndTwoWorkers) {
  KubeCluster cluster("kube3", 3, 2, {"--use-vip"});
  cluster.awaitSystem();
  cluster.apply(kWebServers);
  cluster.awaitPods("default", "app=web", 5, kPodsUp);
  if (HasFailure()) return;
  checkPodNetwork(cluster);
  for (auto& node : {cluster.nodes[4], cluster.nodes[1]}) {
    auto before = cluster.bootId(node);
    ASSERT_NE(before, "") << node.name;
    cluster.talos.ok({"-n", node.address, "reboot"}, kClusterUp);
    EXPECT_TRUE(eventually(
        [&] {
          auto now = cluster.bootId(node);
          return now != "" && now != before;
        },
        kClusterUp, 0.5))
        << node.name;
    cluster.awaitSystem();
    cluster.awaitPods("default", "app=web", 5, kPodsUp);
  }
  checkPodNetwork(cluster);
}

}  // namespace
}  // namespace talos
