// Kubernetes on nodes of both kinds: a control plane in a container, with the host's kernel, and a
// worker that is a virtual machine with our own kernel.
#include <gmock/gmock.h>

#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::contains;
using testing::HasSubstr;

// Catches: our kernel without a feature that kubelet, kube-proxy or flannel need, or with a module
// that no program loads, for IPv4 or IPv6, which tests in containers cannot show; a network of pods
// that needs one kernel at both ends; a segment that passes on only the frames of containers.
TEST_F(KubeHost, WorkerThatIsAVirtualMachine) {
  KubeCluster cluster("mixed", 1, 1, {"--virtual-machines=1", "--ipv6"});
  ASSERT_TRUE(
      contains(harness::slurp("/proc/" + std::to_string(cluster.talos.process("mixed-worker-1")) +
                              "/cmdline"),
               "qemu-system"));
  cluster.awaitSystem();
  if (HasFailure()) return;
  // The certificate that the control plane's trustd has signed, in answer to the token.
  auto worker = cluster.nodes.back().address;
  auto issued = cluster.talos.ok({"-n", cluster.nodes[0].address, "logs", "trustd"});
  EXPECT_THAT(issued, HasSubstr(worker));

  auto kernels = cluster.each("nodes", "{.status.nodeInfo.kernelVersion}");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_NE(kernels[0], kernels[1]) << "both run on the host's kernel";

  cluster.apply(kWebServers);
  cluster.awaitPods("default", "app=web", 2, kPodsUp);
  if (HasFailure()) return;
  checkPodNetwork(cluster);
  for (auto& pod : webPods(cluster)) {
    EXPECT_EQ(cluster.ok({"logs", pod.name}), "serving\n") << pod.node;
  }
}

}  // namespace
}  // namespace talos
