// The least that a change must leave whole of Kubernetes, for `make test`: the programs of its Go
// modules on a control plane and a worker in containers, from nothing through a reboot.
// users-lines-test.cc, which runs beside it, types the lines of the users' documents.
#include <gmock/gmock.h>

#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::eventually;
using testing::Contains;
using testing::Each;
using testing::Ge;
using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* kHealthyEnd = "waiting for all k8s nodes to report schedulable: OK\n";

void checkSmokeHealth(const KubeCluster& cluster) {
  auto health = cluster.talos.talosctl({"-n", cluster.nodes[0].address, "health"}, kClusterUp);
  EXPECT_EQ(health.status, 0) << health.out;
  EXPECT_THAT(health.err, HasSubstr("waiting for all control plane components to be ready: OK\n"));
  EXPECT_THAT(health.err, HasSubstr(kHealthyEnd));
}

// Every request was approved, and has its certificate; the worker's is among them, and those of
// both kubelets as servers.
void checkSmokeRequests(const KubeCluster& cluster) {
  std::vector<std::string> requests;
  eventually(
      [&] {
        requests = cluster.each("csr",
                                "{.spec.signerName} {.status.conditions[*].type} "
                                "{.status.certificate} {.spec.groups[*]}");
        return testing::Matches(Each(HasSubstr(" Approved LS0t")))(requests);
      },
      kClusterUp);
  EXPECT_THAT(requests, Each(HasSubstr(" Approved LS0t")));
  EXPECT_THAT(requests, Contains(HasSubstr("kubernetes.io/kubelet-serving ")).Times(Ge(2)));
  EXPECT_THAT(requests,
              Contains(testing::AllOf(HasSubstr("kubernetes.io/kube-apiserver-client-kubelet "),
                                      HasSubstr("system:bootstrappers"))));
}

// Each kubelet's certificate is of the cluster's CA, for the address of the node and for its name.
void checkSmokeServing(const KubeCluster& cluster) {
  for (auto& node : cluster.nodes) {
    std::vector<std::string> words = {"--server", "https://" + node.address + ":10250", "get",
                                      "--raw", "/healthz"};
    harness::Result answer;
    EXPECT_TRUE(eventually(
        [&] {
          answer = cluster.kubectl(words);
          return answer.status == 0;
        },
        kClusterUp))
        << node.name << ": " << answer.err;
    words.insert(words.end(), {"--tls-server-name", node.name});
    EXPECT_EQ(cluster.ok(words), "ok") << node.name;
    words.back() = "another-name";
    EXPECT_THAT(cluster.kubectl(words).err, HasSubstr("x509: certificate is valid for"));
  }
  auto arguments = cluster.each("pods", "{.metadata.name} {.spec.containers[*].command}");
  EXPECT_THAT(arguments, Contains(testing::AllOf(HasSubstr("kube-apiserver-"),
                                                 HasSubstr("--kubelet-certificate-authority="))))
      << "the logs below would not show that API servers verify kubelets";
}

// An API server reads the log of a pod on each node from its kubelet.
void checkSmokeLogs(const KubeCluster& cluster) {
  for (auto& pod : webPods(cluster)) {
    EXPECT_EQ(cluster.ok({"logs", pod.name}), "serving\n") << pod.node;
  }
}

// The images and versions of all that an upgrade would change.
std::string smokeState(const KubeCluster& cluster) {
  std::string state;
  for (auto& line :
       cluster.each("pods", "{.metadata.namespace}/{.metadata.name} {.spec.containers[*].image}")) {
    state += line + "\n";
  }
  for (auto& node : cluster.nodes) {
    state += cluster.talos.ok(cluster.at(node, {"read", "/system/state/config.yaml"}));
  }
  return state;
}

void checkSmokeUpgrade(const KubeCluster& cluster) {
  auto before = smokeState(cluster);
  auto dry = cluster.talos.ok(
      {"-n", cluster.nodes[0].address, "upgrade-k8s", "--to", "1.35.4", "--dry-run"}, kClusterUp);
  for (auto part : {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"}) {
    EXPECT_THAT(dry, HasSubstr(std::string(part) + ":v1.34.4 -> "));
  }
  EXPECT_EQ(smokeState(cluster), before);
}

// The pods of the control plane's own files, as the API server shows them.
std::vector<std::string> smokeStaticPods(const KubeCluster& cluster) {
  std::vector<std::string> ready;
  for (auto& line :
       cluster.each("pods",
                    "{.metadata.annotations.kubernetes\\.io/config\\.source} {.metadata.name} "
                    "{.status.conditions[?(@.type==\"Ready\")].status}")) {
    if (line.starts_with("file ") && line.ends_with(" True")) ready.push_back(line);
  }
  return ready;
}

void checkSmokeReboot(const KubeCluster& cluster, const KubeNode& node) {
  auto before = cluster.bootId(node);
  ASSERT_NE(before, "") << node.name;
  cluster.talos.ok(cluster.at(node, {"reboot"}), kClusterUp);
  EXPECT_TRUE(eventually(
      [&] {
        auto now = cluster.bootId(node);
        return now != "" && now != before && cluster.talos.booted(node.address);
      },
      kClusterUp, 0.5))
      << node.name;
}

}  // namespace

// Catches: a cluster that does not come up from nothing on the images that Kubernetes' modules
// give, or is not healthy; a Service that does not answer pods by its name; a request of a kubelet
// that stays open; a kubelet that does not serve with a certificate for its name and address, or
// whose logs no API server reads; an upgrade whose dry run fails, or changes something; a control
// plane that is not as before after its reboot.
TEST_F(KubeHost, FromNothingThroughAReboot) {
  KubeCluster cluster("smoke", 1, 1, {"--wait-kubernetes"});
  EXPECT_THAT(cluster.talos.creation().err, HasSubstr(kHealthyEnd));
  cluster.awaitSystem();
  if (HasFailure()) return;
  checkSmokeHealth(cluster);
  EXPECT_THAT(smokeStaticPods(cluster), SizeIs(3));
  checkSmokeRequests(cluster);
  checkSmokeServing(cluster);
  cluster.apply(kWebServers);
  cluster.awaitPods("default", "app=web", 2, kPodsUp);
  if (HasFailure()) return;
  checkPodNetwork(cluster);
  checkSmokeLogs(cluster);
  checkSmokeUpgrade(cluster);
  checkSmokeReboot(cluster, cluster.nodes[0]);
  cluster.awaitSystem();
  cluster.awaitPods("default", "app=web", 2, kPodsUp);
  checkSmokeHealth(cluster);
  EXPECT_THAT(smokeStaticPods(cluster), SizeIs(3));
  checkPodNetwork(cluster);
  checkSmokeServing(cluster);
  checkSmokeLogs(cluster);
}

}  // namespace talos
