// All certificates of a cluster whose nodes are never rebooted, with lifetimes of minutes, watched
// over several renewals: each port shows a valid certificate, nothing is restarted, and no call of
// a client fails.
//
//   RENEWALS=60   minutes of the test (default: 20)
#include <gmock/gmock.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "tests/kubernetes/api-writer.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::eventually;
using testing::HasSubstr;

constexpr double kLifetime = 240;  // s

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Port {
  const char* name;
  unsigned number;
  bool onWorkers, onLoopback;
};
const Port kPorts[] = {{"apid", 50000, true, false},
                       {"trustd", 50001, false, false},
                       {"etcd", 2379, false, true},
                       {"etcd's peers", 2380, false, false},
                       {"kube-apiserver", 6443, false, false}};

class Renewals : public KubeHost {
 protected:
  std::unique_ptr<KubeCluster> cluster;
  std::unique_ptr<ApiWriter> writer;
  std::map<std::string, std::set<std::string>> seen;  // numbers of certificates by port
  std::vector<std::string> invalid;

  void TearDown() override {
    writer = nullptr;
    cluster = nullptr;
    KubeHost::TearDown();
  }
  // The certificate that the port shows.
  void look(const KubeNode& node, const Port& port) {
    auto address = port.onLoopback ? std::string("127.0.0.1") : node.address;
    auto script = "openssl s_client -connect " + address + ":" + std::to_string(port.number) +
                  " </dev/null 2>/dev/null | " + kRead;
    auto shown = cluster->in(cluster->talos.process(node.name), {"sh", "-c", script}, 20);
    note(node.name + " " + port.name, shown);
  }
  // Checks the kubelet's client certificate. Its serving certificate is its own and is not
  // verified.
  void lookAtKubelet(const KubeNode& node) {
    auto root = "/proc/" + std::to_string(cluster->talos.process(node.name)) + "/root";
    const std::filesystem::path link = "/var/lib/kubelet/pki/kubelet-client-current.pem";
    // The link names a file beside it, or a path in the node's own tree.
    std::error_code none;
    auto target = std::filesystem::read_symlink(root + link.string(), none);
    auto file = root + (none ? link : link.parent_path() / target).string();
    note(node.name + " kubelet", harness::run({"sh", "-c", kRead + (" <" + file)}, 20));
  }
  void note(const std::string& name, const harness::Result& shown) {
    auto serial = shown.out.substr(0, shown.out.find('\n'));
    if (!serial.starts_with("serial=")) {
      invalid.push_back(name + " shows none: " + shown.out + shown.err);
    } else if (shown.status != 0) {
      invalid.push_back(name + ": " + shown.out);
    } else {
      seen[name].insert(serial);
    }
  }
  static constexpr const char* kRead = "openssl x509 -noout -serial -enddate -checkend 0";
  // A kubeconfig is read once, so the programs that use one are restarted with each new kubeconfig.
  std::vector<std::string> restarts() const {
    auto all =
        cluster->each("pods", "{.metadata.name} {.status.containerStatuses[*].restartCount}");
    std::erase_if(all, [](auto& line) {
      return line.starts_with("kube-controller-manager-") || line.starts_with("kube-scheduler-");
    });
    return all;
  }
};

// Catches: a certificate that is renewed in a file while its server shows the old certificate until
// the certificate expires; a certificate that is not renewed; a program that has to be restarted
// for a renewal.
TEST_F(Renewals, NothingEndsOnANodeThatIsNeverRebooted) {
  auto minutes = getenv("RENEWALS") == nullptr ? 20.0 : atof(getenv("RENEWALS"));
  auto lifetime = std::to_string(int(kLifetime)) + "s";
  auto patch = "{cluster: {trustd: {certLifetime: " + lifetime +
               "}, controllerManager: {extraArgs: {cluster-signing-duration: " + lifetime + "}}}}";
  cluster = std::make_unique<KubeCluster>(
      "renewals", 3, 1,
      std::vector<std::string>{"--extra-boot-kernel-args", "talos.debug.certificates=" + lifetime,
                               "--config-patch", patch});
  cluster->awaitSystem();
  cluster->apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " +
                 std::string(ApiWriter::kObject) + "}\n");
  if (HasFailure()) return;
  auto before = restarts();
  writer = std::make_unique<ApiWriter>(placeOf(cluster->segment()),
                                       harness::slurp(cluster->kubeconfigPath()));
  EXPECT_TRUE(eventually([&] { return writer->succeeded >= 4; }, 60));
  writer->take();
  unsigned calls = 0, failed = 0;
  for (auto end = seconds() + minutes * 60; seconds() < end && !HasFailure();) {
    for (auto& node : cluster->nodes) {
      for (auto& port : kPorts) {
        if (node.controlPlane || port.onWorkers) look(node, port);
      }
      lookAtKubelet(node);
      auto called = cluster->talos.talosctl({"-n", node.address, "version"}, 30);
      ++calls;
      failed += called.status != 0;
      if (called.status != 0) printf("%s: %s", node.name.c_str(), called.err.c_str());
    }
    ASSERT_TRUE(invalid.empty()) << invalid.front() << "\n" << cluster->overview();
  }
  auto figures = writer->take();
  for (auto& [port, numbers] : seen) {
    printf("%s: %zu certificates\n", port.c_str(), numbers.size());
    // Renewed at half of its lifetime; a late one still is, before its end.
    EXPECT_GE(numbers.size(), size_t(minutes * 60 / kLifetime)) << port;
  }
  printf("%.0f minutes: %u writes, %u failed at first, %u twice; %u calls of nodes, %u failed\n",
         minutes, figures.calls, figures.failed, figures.lost, calls, failed);
  EXPECT_EQ(figures.lost, 0u) << figures.error;
  EXPECT_EQ(failed, 0u);
  EXPECT_EQ(restarts(), before);
  cluster->awaitSystem();
  writer->checkWritten(*cluster);
}

}  // namespace
}  // namespace talos
