// Control-plane nodes reached through a load balancer, which forwards only to the API servers, with
// configs that name no other node: the second node finds the cluster by data from Kubernetes, and a
// worker with KubePrism does without the load balancer.
#include <gmock/gmock.h>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

constexpr double kJoined = 420;

constexpr const char* kBalanced =
    R"([{"op": "replace", "path": "/cluster/controlPlane/endpoint", "value": "https://10.5.0.1:7443"}])";

// A worker gets its certificate from trustd, which the balancer does not forward to.
constexpr const char* kBalancedPrism =
    R"([{"op": "replace", "path": "/cluster/controlPlane/endpoint", "value": "https://10.5.0.1:7443"},)"
    R"( {"op": "add", "path": "/cluster/trustd", "value": {"endpoints": ["10.5.0.2"]}},)"
    R"( {"op": "add", "path": "/machine/features", "value": {"kubePrism": {"enabled": true}}}])";

// Rules for the segment's host, for programs on the segment, and for kubectl there.
constexpr const char* kBalancer =
    "add table ip balancer; "
    "add chain ip balancer in { type nat hook prerouting priority dstnat; }; "
    "add rule ip balancer in tcp dport 7443 dnat to 10.5.0.2:6443; "
    "add chain ip balancer own { type nat hook output priority -100; }; "
    "add rule ip balancer own ip daddr 10.5.0.1 tcp dport 7443 dnat to 10.5.0.2:6443; "
    "add chain ip balancer out { type nat hook postrouting priority srcnat; }; "
    "add rule ip balancer out ip daddr 10.5.0.2 tcp dport 6443 masquerade";

// A bridge gives no packet back to the port that it came from, so the node that the balancer
// forwards to has its own rules.
constexpr const char* kToItself =
    "add table ip balancer; "
    "add chain ip balancer here { type nat hook output priority -100; }; "
    "add rule ip balancer here ip daddr 10.5.0.1 tcp dport 7443 dnat to 10.5.0.2:6443";

struct Balancer : public KubeHost {
  ~Balancer() noexcept override {}

  // Starts the balancer, and bootstraps the cluster.
  static void bootstrap(KubeCluster& cluster) {
    auto rules = cluster.in(cluster.segment(), {"nft", kBalancer}, 10);
    ASSERT_EQ(0, rules.status) << rules.err;
    rules = cluster.in(cluster.talos.process(cluster.nodes[0].name), {"nft", kToItself}, 10);
    ASSERT_EQ(0, rules.status) << rules.err;
    // Otherwise the first node would ask the second, which would learn of the first by the
    // question.
    cluster.talos.ok({"config", "node", cluster.nodes[0].address});
    // A balancer that does not forward port 50000 cannot say whether it leads to a cluster.
    auto first =
        cluster.at(cluster.nodes[0], {"--timeout", "5m", "bootstrap", "--without", "10.5.0.1"});
    cluster.talos.ok(first, 320);
  }
};

// Catches: a node that looks for etcd's members only at the nodes of its config, and so never
// joins; a table of the cluster's nodes that is empty, or lacks a node.
TEST_F(Balancer, OfTheApiServersIsEnoughToFindTheOthers) {
  KubeCluster cluster(
      "balanced", 2, 0,
      {"--bootstrap=false", "--wait-kubernetes=false", "--config-patch-control-plane", kBalanced});
  bootstrap(cluster);
  if (HasFailure()) return;
  auto said = [&](const KubeNode& node, std::vector<std::string> words) {
    return cluster.talos.talosctl(cluster.at(node, std::move(words)), 30).out;
  };
  EXPECT_TRUE(eventually(
      [&] { return contains(said(cluster.nodes[0], {"get", "etcdstatus"}), "member"); }, kJoined));
  EXPECT_TRUE(eventually(
      [&] {
        auto members = said(cluster.nodes[0], {"etcd", "members"});
        return contains(members, cluster.nodes[1].name);
      },
      kJoined))
      << said(cluster.nodes[1], {"get", "etcdstatus"}) << said(cluster.nodes[1], {"get", "members"})
      << cluster.overview();
  cluster.awaitReady(2, kJoined);
  EXPECT_TRUE(eventually(
      [&] {
        auto members = said(cluster.nodes[1], {"get", "member"});
        return contains(members, "HOSTNAME") && contains(members, cluster.nodes[0].name) &&
               contains(members, cluster.nodes[1].name) && contains(members, "controlplane");
      },
      60))
      << said(cluster.nodes[1], {"get", "member"});
}

// Catches: a worker that cannot join through its own balancer; one that knows no API server but the
// endpoint, so that its kubelet stops when the endpoint fails.
TEST_F(Balancer, ThatFailsIsNotMissedWithKubePrism) {
  KubeCluster cluster(
      "prism", 1, 1,
      {"--bootstrap=false", "--wait-kubernetes=false", "--config-patch", kBalancedPrism});
  bootstrap(cluster);
  if (HasFailure()) return;
  cluster.awaitReady(2, kJoined);
  auto &master = cluster.nodes.front(), &worker = cluster.nodes.back();
  auto servers = [&] {
    return cluster.talos
        .talosctl(cluster.at(worker, {"get", "kubeprismstatuses", "-o", "yaml"}), 30)
        .out;
  };
  EXPECT_TRUE(eventually([&] { return contains(servers(), master.address + ":6443"); }, kJoined))
      << servers();
  auto removed = cluster.in(cluster.segment(), {"nft", "delete table ip balancer"}, 10);
  ASSERT_EQ(0, removed.status) << removed.err;
  // The kernel still translates open connections: the kubelet needs another one.
  cluster.talos.ok(cluster.at(worker, {"service", "kubelet", "restart"}));
  std::string said;
  auto renewed = [&] {
    auto asked =
        cluster.kubectl({"--server", "https://" + master.address + ":6443", "get", "lease", "-n",
                         "kube-node-lease", worker.name, "-o", "jsonpath={.spec.renewTime}"});
    said = asked.err;
    return asked.out;
  };
  std::string before;
  ASSERT_TRUE(eventually(
      [&] {
        before = renewed();
        return before != "";
      },
      kPodsUp))
      << said;
  EXPECT_TRUE(eventually(
      [&] {
        auto now = renewed();
        return now != "" && now != before;
      },
      kPodsUp))
      << servers() << cluster.overview();
}

}  // namespace
}  // namespace talos
