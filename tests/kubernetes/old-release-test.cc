// The release of the users' documents, which is years older than what the manifests of today are
// made for. $KUBERNETES_IMAGES has it when `make e2e` has compiled it.
#include <gmock/gmock.h>

#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using testing::HasSubstr;

constexpr const char* kRelease = "1.20.6";

// Catches: a flag, a field, a group of the API or an image that this release has not got, in the
// static pods, the kubelet's files and the manifests; a check of health that needs a newer one.
TEST_F(KubeHost, RunsTheReleaseOfTheUsersDocuments) {
  TALOS_NEEDS_RELEASE(kRelease);
  KubeCluster cluster("old", 1, 1, {"--kubernetes-version", kRelease});
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
}

}  // namespace
}  // namespace talos
