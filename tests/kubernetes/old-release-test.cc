// The release of the users' documents, which is years older than the releases for which today's
// manifests are made. $KUBERNETES_IMAGES has it if `make e2e` has compiled it.
#include <gmock/gmock.h>

#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;

constexpr const char *kRelease = "1.20.6", *kOlder = "1.20.4";

// Patches the config, without a reboot, as an upgrade by hand does.
void downgradeApiServer(const KubeCluster& cluster) {
  auto& master = cluster.nodes[0];
  auto boot = cluster.bootId(master);
  auto image = cluster.ok({"-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-apiserver", "-o",
                           "jsonpath={.items[0].spec.containers[0].image}"});
  auto at = image.find(kRelease);
  ASSERT_NE(at, std::string::npos) << image;
  image.replace(at, std::string(kRelease).size(), kOlder);
  cluster.talos.ok(cluster.at(
      master,
      {"patch", "machineconfig", "--immediate", "-p",
       R"([{"op": "replace", "path": "/cluster/apiServer/image", "value": ")" + image + R"("}])"}));
  std::string version;
  EXPECT_TRUE(eventually(
      [&] {
        version = cluster.kubectl({"version"}).out;
        return contains(version, std::string("Server Version: v") + kOlder);
      },
      kPodsUp, 1))
      << version << cluster.overview();
  EXPECT_EQ(cluster.bootId(master), boot);
  cluster.awaitSystem();
}

// Catches: a flag, a field, a group of the API or an image that this release has not got, in the
// static pods, the kubelet's files and the manifests; a check of health that needs a newer one; a
// patch to an older API server that is not followed, or with which the node reboots.
TEST_F(KubeHost, RunsTheReleaseOfTheUsersDocuments) {
  TALOS_NEEDS_RELEASE(kRelease);
  TALOS_NEEDS_RELEASE(kOlder);
  KubeCluster cluster("old", 1, 1, {"--memory", "4096", "--kubernetes-version", kRelease});
  cluster.awaitSystem();
  if (HasFailure()) return;
  EXPECT_THAT(cluster.ok({"version"}), HasSubstr("Server Version: v1.20.6"));
  for (auto& line : cluster.each("nodes", "{.status.nodeInfo.kubeletVersion}")) {
    EXPECT_EQ(line, "v1.20.6");
  }
  cluster.apply(kWebServers);
  cluster.awaitPods("default", "app=web", 2, kPodsUp);
  if (HasFailure()) return;
  checkPodNetwork(cluster);
  for (auto& pod : webPods(cluster)) EXPECT_EQ(cluster.ok({"logs", pod.name}), "serving\n");
  auto health = cluster.talos.talosctl({"-n", "10.5.0.2", "health"}, 120);
  EXPECT_EQ(health.status, 0) << health.err;
  downgradeApiServer(cluster);
}

}  // namespace
}  // namespace talos
