// Kubernetes on nodes that have no registry: its images are in a cache, which `talosctl image
// cache-create` has filled from a registry that is gone when the nodes are made.
#include <gmock/gmock.h>

#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::eventually;
using testing::HasSubstr;
using testing::Not;

// Makes the cache of all that the cluster and the servers of the test run.
std::string filledCache(const std::string& folder) {
  auto path = folder + "/cache";
  auto listed = harness::run({harness::talosctlPath(), "images"}, 30);
  EXPECT_EQ(listed.status, 0) << listed.err;
  std::vector<std::string> command = {harness::talosctlPath(),   "image",    "cache-create",
                                      "--image-cache-path",      path,       "--registry-mirror",
                                      "*=http://127.0.0.1:5000", "--images", "busybox:1.37"};
  for (auto& image : harness::lines(listed.out)) {
    if (image.find("installer") != std::string::npos)
      continue;  // of this system: none is published
    command.insert(command.end(), {"--images", image});
  }
  auto made = harness::run(command, 300);
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("registry.k8s.io/pause:3.10: "));
  return path;
}

void checkCacheOf(const KubeCluster& cluster, const KubeNode& node) {
  std::string record;
  EXPECT_TRUE(eventually(
      [&] {
        record = cluster.talos.ok(cluster.at(node, {"get", "imagecacheconfig", "-o", "yaml"}));
        return record.find("status: ready") != std::string::npos;
      },
      kClusterUp));
  EXPECT_THAT(record, HasSubstr("/system/imagecache/disk"));
  auto service = cluster.talos.ok(cluster.at(node, {"service", "registryd"}));
  EXPECT_THAT(service, HasSubstr("Running"));
  EXPECT_THAT(
      cluster.talos.ok(cluster.at(node, {"read", "/system/etc/cri/certs.d/_default/hosts.toml"})),
      HasSubstr("\"http://127.0.0.1:3172\".capabilities"));
}

}  // namespace

// Catches: a node without a registry that cannot start Kubernetes although it has the images; a
// cache that is lost with a reboot; an image that the cache lacks, whose failed pull blames the
// cache instead of the registry.
TEST_F(KubeHost, ImagesOfACacheNeedNoRegistry) {
  auto cache = filledCache(folder);
  if (HasFailure()) return;
  registry.reset();
  KubeCluster cluster("cache", 1, 1,
                      {"--wait-kubernetes", "--image-cache", cache, "--config-patch",
                       R"([{"op": "remove", "path": "/machine/registries"}])"});
  cluster.awaitSystem();
  if (HasFailure()) return;
  for (auto& node : cluster.nodes) checkCacheOf(cluster, node);
  cluster.apply(kWebServers);
  cluster.awaitPods("default", "app=web", 2, kPodsUp);
  if (HasFailure()) return;
  checkPodNetwork(cluster);
  auto& node = cluster.nodes[0];
  auto absent = cluster.talos.talosctl(
      cluster.at(node, {"image", "pull", "registry.example/absent:1", "--timeout", "60s"}), 90);
  EXPECT_NE(absent.status, 0);
  EXPECT_THAT(absent.err, HasSubstr("registry.example"));
  EXPECT_THAT(absent.err, Not(HasSubstr("3172")));
  auto before = cluster.bootId(node);
  cluster.talos.ok(cluster.at(node, {"reboot"}), kClusterUp);
  EXPECT_TRUE(eventually(
      [&] {
        auto now = cluster.bootId(node);
        return now != "" && now != before && cluster.talos.booted(node.address);
      },
      kClusterUp, 0.5));
  checkCacheOf(cluster, node);
  cluster.awaitSystem();
}

}  // namespace talos
