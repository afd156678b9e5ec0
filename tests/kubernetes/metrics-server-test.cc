// metrics-server as its users run it, on a control plane and a worker: the program of its Go
// module, and components.yaml as its release is made from the manifests in that module, unchanged.
// metrics-server verifies kubelets by ca.crt of its pod, unless it runs with
// --kubelet-insecure-tls, which components.yaml does not set.
//
// $METRICS_SERVER_MANIFESTS is the folder of the manifests; `make e2e` sets it. Source:
// sigs.k8s.io/metrics-server, licence Apache-2.0, version in rootfs/kubernetes/go/metrics-server.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::eventually;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kNodeMetrics = "/apis/metrics.k8s.io/v1beta1/nodes";
constexpr const char *kNodeFigures = " +\\d+m +\\d+% +[1-9]\\d*Mi +\\d+%",
                     *kPodFigures = " +\\d+m +[1-9]\\d*Mi";

// Returns those of the names that have no row with figures in the table.
std::vector<std::string> withoutFigures(const std::string& table,
                                        const std::vector<std::string>& names,
                                        const char* figures) {
  auto rows = harness::lines(table);
  std::vector<std::string> missing;
  for (auto& name : names) {
    std::regex wanted(name + figures + " *");
    if (std::none_of(rows.begin(), rows.end(),
                     [&](auto& row) { return std::regex_match(row, wanted); })) {
      missing.push_back(name);
    }
  }
  return missing;
}

class MetricsServer : public KubeHost {
 protected:
  std::unique_ptr<KubeCluster> cluster;

  ~MetricsServer() noexcept override {}
  void TearDown() override {
    cluster = nullptr;
    KubeHost::TearDown();
  }
  // Makes components.yaml by the command with which upstream makes that of a release.
  std::string components() {
    return cluster->ok(
        {"kustomize", std::string(getenv("METRICS_SERVER_MANIFESTS")) + "/overlays/release"});
  }
  std::string log() {
    auto result = cluster->kubectl({"logs", "-n", "kube-system", "deploy/metrics-server"});
    return result.out + result.err;
  }
  void awaitAvailable() {
    std::string status;
    EXPECT_TRUE(eventually(
        [&] {
          status = cluster
                       ->kubectl({"get", "apiservice", "v1beta1.metrics.k8s.io", "-o",
                                  "jsonpath={.status.conditions[?(@.type==\"Available\")]}"})
                       .out;
          return harness::contains(status, "\"status\":\"True\"");
        },
        kPodsUp, 0.5))
        << status << log() << cluster->overview();
  }
  // Waits until `kubectl top` prints a row with figures for each name.
  void awaitFigures(std::vector<std::string> arguments, const std::vector<std::string>& names,
                    const char* figures) {
    arguments.insert(arguments.begin(), "top");
    arguments.push_back("--no-headers");
    harness::Result last;
    std::vector<std::string> missing;
    EXPECT_TRUE(eventually(
        [&] {
          last = cluster->kubectl(arguments);
          missing = withoutFigures(last.out, names, figures);
          return last.status == 0 && missing.empty();
        },
        kPodsUp, 1))
        << testing::PrintToString(missing) << "\n"
        << last.out << last.err << log() << cluster->overview();
  }
  // Returns metrics-server's answer to a caller that has no certificate of the aggregation layer
  // and sends the headers by which API servers name their callers.
  std::string answerWithoutAggregation() {
    auto address = cluster->ok({"get", "pods", "-n", "kube-system", "-l", "k8s-app=metrics-server",
                                "-o", "jsonpath={.items[0].status.podIP}"});
    return cluster
        ->in(cluster->talos.process(cluster->nodes[0].name),
             {"bash", "-c",
              "printf 'GET %s HTTP/1.0\\r\\nX-Remote-User: admin\\r\\n"
              "X-Remote-Group: system:masters\\r\\n\\r\\n' \"$1\" | "
              "openssl s_client -quiet -connect \"$0:10250\"",
              address, kNodeMetrics},
             30)
        .out;
  }
};

}  // namespace

// Catches: a kubelet whose serving certificate metrics-server cannot verify, because it is not of
// the cluster's CA or not for the node's address; an aggregation layer by which API servers do not
// reach an API in a pod, or whose CA is not published, so that the API does not know its callers.
// With serverTLSBootstrap: false in the configs of both nodes it failed: metrics-server logged for
// each kubelet "x509: cannot validate certificate for 10.5.0.2 because it doesn't contain any IP
// SANs".
TEST_F(MetricsServer, AsPublishedVerifiesKubelets) {
  auto manifests = getenv("METRICS_SERVER_MANIFESTS");
  TALOS_NEEDS(manifests != nullptr && std::filesystem::exists(manifests), "metrics-server",
              "metrics-server is not compiled; run make e2e");
  cluster = std::make_unique<KubeCluster>("metrics", 1, 1);
  cluster->awaitSystem();
  if (HasFailure()) return;
  EXPECT_THAT(cluster->kubectl({"top", "nodes"}).err, HasSubstr("Metrics API not available"));

  auto published = components();
  ASSERT_THAT(published, AllOf(HasSubstr("registry.k8s.io/metrics-server/metrics-server:v"),
                               Not(HasSubstr("insecure-tls"))));
  cluster->apply(published);
  awaitAvailable();
  if (HasFailure()) return;
  std::vector<std::string> nodes, pods;
  for (auto& node : cluster->nodes) nodes.push_back(node.name);
  awaitFigures({"nodes"}, nodes, kNodeFigures);
  for (auto& [name, pod] : cluster->pods()) {
    auto slash = name.find('/');
    pods.push_back(name.substr(0, slash) + " +" + name.substr(slash + 1));
  }
  awaitFigures({"pods", "-A"}, pods, kPodFigures);
  EXPECT_THAT(log(), Not(HasSubstr("x509")));

  // The API server's certificate of the aggregation layer proves who calls; its headers alone do
  // not.
  EXPECT_THAT(cluster->ok({"get", "--raw", kNodeMetrics}), HasSubstr(nodes.back()));
  EXPECT_THAT(answerWithoutAggregation(),
              AllOf(HasSubstr("403 Forbidden"), HasSubstr("system:anonymous")));
}

}  // namespace talos
