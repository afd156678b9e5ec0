// Host DNS on nodes of Kubernetes: pods look up names at the node's resolver, with CoreDNS between
// and without it.
#include <gmock/gmock.h>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::eventually;
using testing::HasSubstr;

constexpr const char* kHostDns =
    R"([{"op": "add", "path": "/machine/features", "value": {"hostDNS": )"
    R"({"enabled": true, "forwardKubeDNSToHost": true, "resolveMemberNames": true}}},)"
    R"( {"op": "add", "path": "/machine/network/extraHostEntries", "value": )"
    R"([{"ip": "192.0.2.60", "aliases": ["registry.lab.test"]}]}])";

std::string podWithPolicy(const std::string& name, const std::string& policy) {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name +
         "}\nspec:\n  dnsPolicy: " + policy +
         "\n  terminationGracePeriodSeconds: 0\n  containers: [{name: main, image: "
         "\"busybox:1.37\", command: [sleep, \"100000\"]}]\n";
}

struct HostDns : public KubeHost {
  ~HostDns() noexcept override {}
  // Waits until a program in the pod has this text in its output.
  static void expectSays(const KubeCluster& cluster, const std::string& pod,
                         std::vector<std::string> words, const std::string& text) {
    words.insert(words.begin(), {"exec", pod, "--"});
    harness::Result last;
    EXPECT_TRUE(eventually(
        [&] {
          last = cluster.kubectl(words);
          return harness::contains(last.out, text);
        },
        kPodsUp))
        << pod << ": " << testing::PrintToString(words) << "\n"
        << last.out << last.err << cluster.overview();
  }
};

// Catches: a resolver that pods do not reach, or that CoreDNS does not ask; a loop between the two;
// hosts and nodes of the cluster that are not known there.
TEST_F(HostDns, AnswersPods) {
  KubeCluster cluster("names", 1, 1, {"--config-patch", kHostDns});
  cluster.awaitSystem();
  if (HasFailure()) return;
  cluster.apply(podWithPolicy("direct", "Default"));
  cluster.apply(podWithPolicy("usual", "ClusterFirst"));
  expectSays(cluster, "direct", {"cat", "/etc/resolv.conf"}, "nameserver 169.254.116.108");
  auto& worker = cluster.nodes.back();
  for (auto pod : {"direct", "usual"}) {
    expectSays(cluster, pod, {"nslookup", "registry.lab.test"}, "192.0.2.60");
    expectSays(cluster, pod, {"nslookup", worker.name + "."}, worker.address);
  }
  expectSays(cluster, "usual", {"nslookup", "kubernetes.default.svc.cluster.local"}, "10.96.0.1");
  auto status =
      cluster.talos.talosctl(cluster.at(worker, {"get", "hostdns", "-o", "yaml"}), 30).out;
  EXPECT_THAT(status, HasSubstr("169.254.116.108:53"));
  EXPECT_THAT(status, HasSubstr("problem: \"\""));
}

}  // namespace
}  // namespace talos
