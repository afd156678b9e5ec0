// A worker that is upgraded to images whose kubelet does not start, or starts and is not Ready: the
// node returns to the previous system by itself, says why, and is Ready again with its pods.
#include <gmock/gmock.h>

#include <regex>

#include "tests/bad-images/system-images.h"
#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

constexpr const char *kVersion = "v9.9.1", *kBrain = "usr/bin/machined";
constexpr double kUpgrade = 600;  // s, on a busy machine

struct BadKubelet {
  const char* name;
  const char* fault;   // of machined, as of SystemImages
  const char* reason;  // a regular expression
};

const BadKubelet kBadKubelets[] = {
    // An option that no kubelet knows.
    {"does not start", "patch hostname-override hostname-overrule",
     "was given up: it was not healthy within 60 s: .*(service kubelet|kubelet)"},
    // containerd looks for the network of pods in a folder that is empty.
    {"is not Ready", "patch /etc/cni/net.d /etc/cni/net.x",
     "was given up: it was not healthy within 60 s: .*Ready"},
};

std::string slotOf(const KubeCluster& cluster, const KubeNode& node) {
  auto line = cluster.talos.talosctl(cluster.at(node, {"read", "/proc/cmdline"}), 30).out;
  std::smatch match;
  return std::regex_search(line, match, std::regex("talos.slot=([AB])")) ? match[1].str() : "";
}

void returnsFrom(const KubeCluster& cluster, const KubeNode& node, SystemImages& images,
                 const BadKubelet& bad) {
  SCOPED_TRACE(std::string("a kubelet that ") + bad.name);
  auto image = images.make(kVersion, {{kBrain, bad.fault}});
  auto result = cluster.talos.talosctl(
      cluster.at(node, {"upgrade", "--image", image, "--preserve", "--health-timeout", "60s"}),
      kUpgrade);
  fprintf(stderr, "    %s: %.0f s\n%s", bad.name, result.seconds, result.err.c_str());
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(std::regex_search(result.err, std::regex(bad.reason))) << result.err;
  auto state = cluster.talos.ok(cluster.at(node, {"get", "upgradestatus", "-o", "yaml"}));
  EXPECT_THAT(state, testing::HasSubstr("stage: failed"));
  EXPECT_TRUE(std::regex_search(state, std::regex(bad.reason))) << state;
  EXPECT_EQ(slotOf(cluster, node), "A");
  cluster.awaitSystem();
  cluster.awaitPods("default", "app=web", cluster.nodes.size(), kPodsUp);
}

}  // namespace

// Catches: a system that is kept though no pod can run with it; a worker that stays cordoned when
// it has returned.
TEST_F(KubeHost, ReturnsFromABadKubelet) {
  SystemImages images(folder);
  KubeCluster cluster("badkubelet", 1, 1);
  cluster.awaitSystem();
  cluster.apply(kWebServers);
  cluster.awaitPods("default", "app=web", cluster.nodes.size(), kPodsUp);
  auto& worker = cluster.nodes[1];
  ASSERT_EQ(slotOf(cluster, worker), "A");
  for (auto& bad : kBadKubelets) {
    if (!HasFailure()) returnsFrom(cluster, worker, images, bad);
  }
  // An image of this test without a fault is confirmed, or the ones above show nothing.
  auto good = images.make(kVersion, {});
  cluster.talos.ok(cluster.at(worker, {"upgrade", "--image", good, "--preserve"}), kUpgrade);
  EXPECT_EQ(slotOf(cluster, worker), "B");
}

}  // namespace talos
