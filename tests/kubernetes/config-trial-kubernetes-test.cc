// Changes of the config on trial on a node that runs Kubernetes, the only control plane: a kubelet,
// an API server or a scheduler that cannot start with it comes back, and a good change of the
// kubelet is confirmed. With trials of a minute, of which a node that may need another minute to
// show that it works has no less.
#include <memory>
#include <string>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

constexpr double kBack = 420;  // s; beside other tests

struct KubernetesTrial : public KubeHost {
  ~KubernetesTrial() noexcept override {}
  std::unique_ptr<KubeCluster> cluster;

  void TearDown() override {
    cluster = nullptr;
    KubeHost::TearDown();
  }
  const KubeNode& node() const { return cluster->nodes[0]; }
  harness::Result patch(const std::string& text) const {
    return cluster->talos.talosctl(cluster->at(node(), {"patch", "mc", "--mode=no-reboot", "--wait",
                                                        "--trial-timeout=1m", "-p", text}),
                                   kBack);
  }
  std::string status() const {
    return cluster->talos.talosctl(cluster->at(node(), {"status"})).out;
  }
};

}  // namespace

// Catches: a kubelet that does not start, and whose Node counts as Ready for as long as the cluster
// has not noticed, or one that starts only until the next boot; a good change of the kubelet that
// goes back; an API server that fails, and for which others are blamed that do not exist.
TEST_F(KubernetesTrial, WhatTheKubeletDoesCounts) {
  cluster = std::make_unique<KubeCluster>("trialk8s", 1, 0);
  auto good = patch("machine: {kubelet: {extraArgs: {v: \"1\"}}}");
  EXPECT_EQ(good.status, 0) << good.err << status();
  EXPECT_TRUE(contains(good.err, "confirmed: the config stays")) << good.err;
  struct {
    const char *text, *reason;
  } rows[] = {
      {"cluster: {scheduler: {extraArgs: {no-such-argument: \"1\"}}}",
       "pod kube-system/kube-scheduler"},
      {"machine: {kubelet: {nodeIP: {validSubnets: [192.0.2.0/24]}}}",
       "service kubelet waits for an IPv4 address"},
      {"cluster: {apiServer: {extraArgs: {no-such-argument: \"1\"}}}", "kube-apiserver"},
      // The last one: after it, the pods need a while to be a duty again.
      {"machine: {kubelet: {extraArgs: {no-such-argument: \"1\"}}}", "service kubelet"},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.text);
    auto result = patch(row.text);
    EXPECT_EQ(result.status, 1) << result.err;
    std::string now;
    EXPECT_TRUE(eventually(
        [&] { return contains(now = status(), "the last change of the config went back: "); },
        kBack, 1))
        << now;
    EXPECT_TRUE(contains(now, row.reason)) << now;
  }
}

}  // namespace talos
