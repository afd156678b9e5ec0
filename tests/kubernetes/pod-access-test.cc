// Access of pods to the machine API, on real Kubernetes: a pod of a manifest that talosctl has
// injected an account into calls apid by the Service, with the role of its account and no other.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::eventually;
using testing::HasSubstr;

constexpr const char* kPatch =
    R"([{"op": "add", "path": "/machine/features", "value": {"kubernetesTalosAPIAccess":)"
    R"( {"enabled": true, "allowedRoles": ["os:reader"],)"
    R"( "allowedKubernetesNamespaces": ["default"]}}}])";

// talosctl is a static program: the pod has it from its node's disk.
constexpr const char* kPod = R"(apiVersion: v1
kind: Pod
metadata: {name: caller, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: busybox:1.37
    command: [sleep, '100000']
    volumeMounts: [{name: client, mountPath: /client}]
  volumes: [{name: client, hostPath: {path: /var/client}}]
)";

void giveClient(const KubeCluster& cluster, const KubeNode& node) {
  auto folder = "/proc/" + std::to_string(cluster.talos.process(node.name)) + "/root/var/client";
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file(harness::talosctlPath(), folder + "/talosctl");
}

std::string failureOf(const KubeCluster& cluster, const std::string& in, const std::string& name) {
  return cluster.kubectl({"get", "tsa", name, "-n", in, "-o", "jsonpath={.status.failureReason}"})
      .out;
}

void applyAccount(const KubeCluster& cluster, const std::string& in, const std::string& name,
                  const std::string& role) {
  cluster.apply("apiVersion: talos.dev/v1alpha1\nkind: ServiceAccount\nmetadata: {name: " + name +
                ", namespace: " + in + "}\nspec: {roles: ['" + role + "']}\n");
}

// Catches: a pod that cannot call the API, or that may do more there than its account permits; an
// account that is refused without a reason, or given a Secret all the same.
TEST_F(KubeHost, PodsCallTheMachineApiWithTheRolesOfTheirAccounts) {
  KubeCluster cluster("podapi", 1, 1, {"--config-patch-control-plane", kPatch});
  cluster.awaitSystem();
  if (HasFailure()) return;
  auto &master = cluster.nodes.front(), &worker = cluster.nodes.back();
  auto log = [&] { return cluster.talos.talosctl(cluster.at(master, {"logs", "kubed"})).out; };
  EXPECT_TRUE(eventually(
      [&] { return cluster.kubectl({"get", "crd", "serviceaccounts.talos.dev"}).status == 0; },
      kPodsUp))
      << log();
  giveClient(cluster, worker);
  auto path = cluster.talos.folder() + "/pod.yaml";
  std::ofstream(path) << kPod;
  auto injected = cluster.talos.ok({"inject", "serviceaccount", "-f", path});
  EXPECT_THAT(injected, HasSubstr("name: caller-talos-secrets"));
  cluster.apply(injected);
  auto inPod = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"exec", "caller", "--", "/client/talosctl", "-n", master.address});
    return cluster.kubectl(words, 60);
  };
  EXPECT_TRUE(eventually([&] { return inPod({"version"}).status == 0; }, kPodsUp, 1))
      << inPod({"version"}).err << log() << cluster.overview();
  EXPECT_THAT(inPod({"version"}).out, HasSubstr("Server:"));
  auto refused = inPod({"reboot", "--wait=false"});
  EXPECT_NE(refused.status, 0) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("os:reader"));
  EXPECT_NE(inPod({"get", "mc"}).status, 0);
  EXPECT_EQ(failureOf(cluster, "default", "caller-talos-secrets"), "");

  applyAccount(cluster, "default", "too-much", "os:admin");
  applyAccount(cluster, "kube-system", "elsewhere", "os:reader");
  EXPECT_TRUE(eventually(
      [&] {
        return failureOf(cluster, "default", "too-much").find("os:admin") != std::string::npos &&
               failureOf(cluster, "kube-system", "elsewhere").find("kube-system") !=
                   std::string::npos;
      },
      60))
      << log();
  EXPECT_NE(cluster.kubectl({"get", "secret", "too-much"}).status, 0);
  EXPECT_NE(cluster.kubectl({"get", "secret", "elsewhere", "-n", "kube-system"}).status, 0);
  EXPECT_THAT(cluster.ok({"get", "events", "-o", "jsonpath={.items[*].reason}"}),
              HasSubstr("ErrRolesNotAllowed"));

  cluster.ok({"delete", "tsa", "caller-talos-secrets"});
  EXPECT_TRUE(eventually(
      [&] { return cluster.kubectl({"get", "secret", "caller-talos-secrets"}).status != 0; }, 60));
}

}  // namespace
}  // namespace talos
