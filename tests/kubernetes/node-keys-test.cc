// Keys of the machine config about the kubelet and the pods of a node, each read where it acts: in
// pods that the kubelet runs, and in Kubernetes.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <regex>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kOfWorker = R"(
machine:
  files: [{path: /var/mnt/mapped/word, op: create, permissions: 0644, content: mapped}]
  baseRuntimeSpecOverrides:
    process:
      rlimits: [{type: RLIMIT_NOFILE, hard: 4321, soft: 4321}]
  seccompProfiles:
    - name: no-mkdir.json
      value:
        defaultAction: SCMP_ACT_ALLOW
        syscalls: [{names: [mkdir, mkdirat], action: SCMP_ACT_ERRNO}]
  kubelet:
    defaultRuntimeSeccompProfileEnabled: true
    extraMounts:
      - destination: /var/mnt/mapped
        type: bind
        source: /var/mnt/mapped
        options: [bind, rw]
        uidMappings: [{containerID: 0, hostID: 4000, size: 1}]
        gidMappings: [{containerID: 0, hostID: 4000, size: 1}]
  pods:
    - apiVersion: v1
      kind: Pod
      metadata: {name: fixed, labels: {app: fixed}}
      spec:
        hostNetwork: true
        terminationGracePeriodSeconds: 0
        containers: [{name: main, image: "busybox:1.37", command: [sleep, "100000"]}]
)";

// Pods without a profile on the worker and on the other node, and one with the profile of the
// config.
constexpr const char* kPods = R"(apiVersion: v1
kind: Pod
metadata: {name: usual, labels: {app: usual}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: WORKER}
  containers:
  - name: main
    image: "busybox:1.37"
    command: [sh, -c, "grep -w Seccomp_filters: /proc/1/status; ulimit -n; mkdir /tmp/made && echo made; sleep 100000"]
---
apiVersion: v1
kind: Pod
metadata: {name: other, labels: {app: other}}
spec:
  terminationGracePeriodSeconds: 0
  nodeName: MASTER
  containers:
  - name: main
    image: "busybox:1.37"
    command: [sh, -c, "grep -w Seccomp_filters: /proc/1/status; sleep 100000"]
---
apiVersion: v1
kind: Pod
metadata: {name: refused, labels: {app: refused}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: WORKER}
  securityContext: {seccompProfile: {type: Localhost, localhostProfile: profiles/no-mkdir.json}}
  containers:
  - name: main
    image: "busybox:1.37"
    command: [sh, -c, "mkdir /tmp/made 2>&1; sleep 100000"]
)";

struct NodeKeys : public KubeHost {
  ~NodeKeys() noexcept override {}
  std::unique_ptr<KubeCluster> cluster;

  void TearDown() override {
    cluster = nullptr;
    KubeHost::TearDown();
  }
  const KubeNode& master() const { return cluster->nodes[0]; }
  const KubeNode& worker() const { return cluster->nodes[1]; }
  std::string at(const KubeNode& node, std::vector<std::string> words) const {
    return cluster->talos.ok(cluster->at(node, std::move(words)));
  }
  void patch(const KubeNode& node, const std::string& operations) const {
    at(node, {"patch", "mc", "--immediate", "-p", operations});
  }
  pid_t kubelet() const { return cluster->talos.program(worker().name, "kubelet"); }
  std::string fixedPod() const {
    return cluster
        ->kubectl({"get", "pod", "fixed-" + worker().name, "--ignore-not-found", "-o",
                   "jsonpath={.status.phase} {.spec.containers[0].command[1]}"})
        .out;
  }

  void checkPods() const;
  void checkMappedMount() const;
  void checkStaticPod() const;
  void checkManifestsFolder() const;
  void checkUnregistered() const;
};

void NodeKeys::checkPods() const {
  auto pods = std::regex_replace(kPods, std::regex("WORKER"), worker().name);
  cluster->apply(std::regex_replace(pods, std::regex("MASTER"), master().name));
  cluster->awaitPods("default", "app=usual", 1, kPodsUp);
  cluster->awaitPods("default", "app=refused", 1, kPodsUp);
  cluster->awaitPods("default", "app=other", 1, kPodsUp);
  // Around both is the filter of the container that the node is in.
  auto filters = [&](const char* pod) {
    return std::stoi(cluster->ok({"logs", pod}).substr(std::string("Seccomp_filters:\t").size()));
  };
  EXPECT_EQ(filters("usual"), filters("other") + 1);
  EXPECT_THAT(cluster->ok({"logs", "usual"}), EndsWith("\n4321\nmade\n"));
  EXPECT_THAT(cluster->ok({"logs", "refused"}), HasSubstr("Operation not permitted"));
}

void NodeKeys::checkMappedMount() const {
  auto path = "/proc/" + std::to_string(kubelet()) + "/root/var/mnt/mapped/word";
  struct stat found = {};
  ASSERT_EQ(stat(path.c_str(), &found), 0) << path;
  EXPECT_EQ(found.st_uid, 4000u);
  EXPECT_EQ(found.st_gid, 4000u);
}

void NodeKeys::checkStaticPod() const {
  EXPECT_TRUE(eventually([&] { return fixedPod() == "Running 100000"; }, kPodsUp, 0.5))
      << fixedPod() << cluster->overview();
  EXPECT_THAT(at(worker(), {"get", "staticpods"}), HasSubstr("default-fixed"));
  auto before = kubelet();
  patch(worker(), R"([{"op": "replace", "path": "/machine/pods/0/spec/containers/0/command/1",
                       "value": "200000"}])");
  EXPECT_TRUE(eventually([&] { return fixedPod() == "Running 200000"; }, kPodsUp, 0.5))
      << fixedPod();
  patch(worker(), R"([{"op": "remove", "path": "/machine/pods"}])");
  EXPECT_TRUE(eventually([&] { return fixedPod().empty(); }, kPodsUp, 0.5)) << fixedPod();
  EXPECT_THAT(at(worker(), {"get", "staticpods"}), Not(HasSubstr("default-fixed")));
  EXPECT_EQ(kubelet(), before) << "the kubelet was restarted";
}

// The control plane moves to the other folder.
void NodeKeys::checkManifestsFolder() const {
  patch(master(), R"([{"op": "add", "path": "/machine/kubelet/disableManifestsDirectory",
                       "value": true}])");
  auto inFolder = [&](const char* folder) {
    return cluster->talos.talosctl(cluster->at(master(), {"ls", folder})).out;
  };
  EXPECT_TRUE(eventually(
      [&] {
        return contains(inFolder("/etc/kubernetes/system-manifests"), "talos-kube-apiserver") &&
               !contains(inFolder("/etc/kubernetes/manifests"), "talos-kube-apiserver");
      },
      kPodsUp, 0.5));
  EXPECT_TRUE(eventually(
      [&] {
        return contains(
                   harness::slurp("/proc/" +
                                  std::to_string(cluster->talos.program(master().name, "kubelet")) +
                                  "/root/etc/kubernetes/kubelet.yaml"),
                   "staticPodPath: /etc/kubernetes/system-manifests") &&
               cluster->kubectl({"get", "--raw", "/readyz"}).out == "ok";
      },
      kPodsUp, 0.5));
}

void NodeKeys::checkUnregistered() const {
  patch(worker(), R"([{"op": "add", "path": "/machine/kubelet/skipNodeRegistration",
                       "value": true}])");
  EXPECT_TRUE(eventually(
      [&] {
        return contains(at(worker(), {"get", "nodespecs", "-o", "yaml"}), "unregistered: true") &&
               !contains(at(worker(), {"get", "nodestatuses"}), worker().name);
      },
      kPodsUp, 0.5));
  cluster->ok({"delete", "node", worker().name});
  patch(worker(), R"([{"op": "add", "path": "/machine/pods", "value": [{"apiVersion": "v1",
                       "kind": "Pod", "metadata": {"name": "alone"}, "spec": {"hostNetwork": true,
                       "containers": [{"name": "main", "image": "busybox:1.37",
                                       "command": ["sleep", "100000"]}]}}]}])");
  std::string containers;
  EXPECT_TRUE(eventually(
      [&] {
        containers = at(worker(), {"containers", "-k"});
        return std::regex_search(containers, std::regex("alone-\\S+:main .*CONTAINER_RUNNING"));
      },
      kPodsUp, 0.5))
      << containers << at(worker(), {"logs", "kubelet", "--tail", "50"});
  // The pods that were on the node are removed first.
  harness::Result health;
  EXPECT_TRUE(eventually(
      [&] {
        health = cluster->inside({"--control-plane-nodes", master().address, "--worker-nodes",
                                  worker().address, "--wait-timeout", "60s"});
        return health.status == 0;
      },
      kPodsUp, 1))
      << health.out << health.err;
  EXPECT_THAT(cluster->ok({"get", "nodes", "-o", "name"}), Not(HasSubstr(worker().name)));
}

// Catches: a profile that containerd does not find; pods without the default filter; a limit that
// comes from elsewhere; a static pod that the kubelet does not run, or runs after it was removed,
// or whose change restarts the kubelet; a control plane that ends with the users' folder; a node
// that registers all the same, or whose kubelet then runs nothing, or for which health waits.
TEST_F(NodeKeys, ActWhereTheyAreMeantTo) {
  cluster = std::make_unique<KubeCluster>(
      "nodekeys", 1, 1, std::vector<std::string>{"--config-patch-worker", kOfWorker});
  cluster->awaitReady(2, kClusterUp);
  if (HasFailure()) return;
  checkPods();
  checkMappedMount();
  checkStaticPod();
  checkManifestsFolder();
  checkUnregistered();
}

}  // namespace
}  // namespace talos
