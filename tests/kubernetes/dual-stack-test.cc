// Kubernetes with IPv4 and IPv6, and with IPv6 alone, on nodes in containers.
#include <gmock/gmock.h>
#include <stdio.h>

#include <chrono>
#include <sstream>

#include "tests/harness/host-state.h"
#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// Returns each node's name and the value at `path` of its object.
std::vector<std::string> ofNodes(const KubeCluster& cluster, const std::string& path) {
  return cluster.each("nodes", "{.metadata.name} " + path);
}

// Names of a Service, asked from a pod: all addresses that it has.
void checkNames(const KubeCluster& cluster) {
  auto addresses = cluster.ok({"get", "service", "web", "-o", "jsonpath={.spec.clusterIPs[*]}"});
  for (auto& pod : webPods(cluster)) {
    auto answer = cluster.ok({"exec", pod.name, "--", "nslookup", "web.default.svc.cluster.local"});
    std::istringstream all(addresses);
    for (std::string address; all >> address;) {
      EXPECT_THAT(answer, HasSubstr("Address: " + address + "\n")) << pod.node;
    }
  }
}

// A program of each node reaches a Service's addresses, and a port of each node at its addresses.
void checkFromNodes(const KubeCluster& cluster) {
  cluster.ok({"patch", "service", "web", "-p",
              R"({"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}})"});
  std::vector<std::pair<std::string, unsigned>> places;
  std::istringstream service(
      cluster.ok({"get", "service", "web", "-o", "jsonpath={.spec.clusterIPs[*]}"}));
  for (std::string address; service >> address;) places.emplace_back(address, 80);
  for (auto& line :
       cluster.each("nodes", "{.status.addresses[?(@.type==\"InternalIP\")].address}")) {
    std::istringstream node(line);
    for (std::string address; node >> address;) places.emplace_back(address, 30080);
  }
  for (auto& from : cluster.nodes) {
    for (auto& [address, port] : places) {
      EXPECT_TRUE(eventually(
          [&, &address = address, &port = port] {
            auto answer = cluster.fetched(cluster.talos.process(from.name), address, port);
            return contains(answer, "-master-") || contains(answer, "-worker-");
          },
          60, 0.5))
          << "from " << from.name << " at " << address << ":" << port;
    }
  }
}

// Catches: a family that is missing in one of the many places that have to know of it: a node's
// addresses and its part of the pods' network, flannel, kube-proxy, the names of Services, the
// certificate of the API; a node that changes its host.
TEST_F(KubeHost, BothFamilies) {
  HostUnchanged host;
  KubeCluster cluster("dual", 1, 1, {"--ipv6"});
  cluster.awaitSystem();
  if (HasFailure()) return;
  EXPECT_THAT(ofNodes(cluster, "{.status.addresses[?(@.type==\"InternalIP\")].address}"),
              UnorderedElementsAre("dual-master-1 10.5.0.2 fd74:616c:a05::2",
                                   "dual-worker-1 10.5.0.3 fd74:616c:a05::3"));
  for (auto& line : cluster.each("nodes", "{.spec.podCIDRs[*]}")) {
    EXPECT_THAT(line, testing::MatchesRegex("10\\.244\\.[01]\\.0/24 fc00:db8:10:(1:)?:/64"));
  }
  EXPECT_THAT(cluster.each("services", "{.metadata.name} {.spec.clusterIPs[*]}"),
              UnorderedElementsAre("kubernetes 10.96.0.1", "kube-dns 10.96.0.10",
                                   "kube-dnsv6 fc00:db8:20::a"));
  // The calls verify the certificate by its authority.
  for (auto address : {"10.5.0.2", "[fd74:616c:a05::2]"}) {
    EXPECT_EQ(cluster.ok({"--server", std::string("https://") + address + ":6443", "get", "--raw",
                          "/readyz"}),
              "ok");
  }
  cluster.apply(kWebServers);
  cluster.awaitPods("default", "app=web", 2, kPodsUp);
  if (HasFailure()) return;
  checkPodNetwork(cluster);
  checkNames(cluster);
  checkFromNodes(cluster);
}

// Returns the name of the node that has the shared address; empty if none reports it.
std::string holderOf(const KubeCluster& cluster) {
  for (auto& node : cluster.nodes) {
    if (!node.controlPlane) continue;
    auto shown =
        cluster.talos.talosctl(cluster.at(node, {"--timeout", "5s", "get", "vipstatus"}), 20);
    if (contains(shown.out, " holder ")) return node.name;
  }
  return "";
}

// Catches: an IPv4 address that a program needs or invents: etcd and its members, the kubelet's
// node, the API's endpoints, flannel, registries; a shared address that stays with a node that has
// lost its power, because its neighbours are not informed.
TEST_F(KubeHost, Ipv6AloneWithASharedAddress) {
  constexpr const char* kShared = "fd74:616c:a05::32";
  KubeCluster cluster("six", 3, 1, {"--ipv4=false", "--ipv6", "--use-vip"});
  cluster.awaitSystem();
  if (HasFailure()) return;
  EXPECT_THAT(
      ofNodes(cluster, "{.status.addresses[?(@.type==\"InternalIP\")].address}"),
      UnorderedElementsAre("six-master-1 fd74:616c:a05::2", "six-master-2 fd74:616c:a05::3",
                           "six-master-3 fd74:616c:a05::4", "six-worker-1 fd74:616c:a05::5"));
  auto members = cluster.talos.ok(cluster.at(cluster.nodes[0], {"etcd", "members"}));
  for (auto& node : cluster.nodes) {
    if (node.controlPlane) EXPECT_THAT(members, HasSubstr("https://[" + node.address + "]:2380"));
  }
  EXPECT_THAT(cluster.each("services", "{.metadata.name} {.spec.clusterIPs[*]}"),
              UnorderedElementsAre("kubernetes fc00:db8:20::1", "kube-dns fc00:db8:20::a"));
  cluster.apply(kWebServers);
  cluster.awaitPods("default", "app=web", 4, kPodsUp);
  if (HasFailure()) return;
  checkPodNetwork(cluster);
  checkNames(cluster);
  checkFromNodes(cluster);

  // The kubeconfig has the shared address.
  EXPECT_THAT(harness::slurp(cluster.kubeconfigPath()),
              HasSubstr(std::string("server: https://[") + kShared + "]:6443"));
  auto ready = [&] {
    auto answer = cluster.kubectl({"--request-timeout=2s", "get", "--raw", "/readyz"}, 10);
    return answer.out == "ok";
  };
  ASSERT_TRUE(ready());
  auto before = holderOf(cluster);
  ASSERT_NE(before, "");
  cluster.talos.ok({"cluster", "node", "kill", before});
  auto since = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually(ready, 60)) << "nobody answers at " << kShared;
  printf("the API answers at the shared address %.1f s after its holder's end\n",
         std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count());
  std::string after;
  EXPECT_TRUE(eventually([&] { return (after = holderOf(cluster)) != ""; }, 60));
  EXPECT_NE(after, before);
  cluster.talos.ok({"cluster", "node", "start", before});
  cluster.awaitReady(4, kClusterUp);
}

}  // namespace
}  // namespace talos
