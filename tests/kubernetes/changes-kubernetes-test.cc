// Drawn changes of the config (tests/cluster/changes.h), harmful and good, on nodes that run
// Kubernetes: the only control-plane node, and a worker. CHANGES_HARMFUL, CHANGES_GOOD and
// CHANGES_SEED as in tests/cluster/changes-test.cc.
#include <memory>
#include <thread>

#include "tests/cluster/change-runs.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using changes::countOf;

struct KubernetesChanges : public KubeHost {
  ~KubernetesChanges() noexcept override {}
};

}  // namespace

// Catches: a harmful change of the kubelet or the control plane that stays, or goes back with
// another reason; a good one that goes back.
TEST_F(KubernetesChanges, NoneStrandsANode) {
  KubeCluster cluster("chgkube", 1, 1);
  cluster.awaitReady(2, kClusterUp);
  auto seed = countOf("CHANGES_SEED", "1");
  changes::Work work(
      seed, changes::drawTasks(seed, changes::kKube | changes::kKubeWorker,
                               countOf("CHANGES_HARMFUL", "8"), countOf("CHANGES_GOOD", "8"), 0));
  // The worker waits for an API server that a change of the other node stops, so one after the
  // other.
  std::vector<unsigned> sorts = {changes::kKubeWorker, changes::kKube};
  for (size_t i = 0; i < sorts.size(); ++i) {
    auto& node = cluster.nodes[sorts.size() - 1 - i];
    std::vector<changes::Victim> one;
    one.emplace_back(work, cluster.talos, node.name,
                     changes::Place{node.address, i == 0 ? "10.5.0.2" : "10.5.0.1", {}},
                     cluster.talos.endpoint());
    changes::workOn(work, one, sorts[i]);
  }
  EXPECT_EQ(work.conclude(), 0u);
  EXPECT_EQ(work.left(), 0u);
}

}  // namespace talos
