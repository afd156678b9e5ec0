// The metrics of containerd and etcd as the documents say, scraped by Debian's Prometheus: those of
// containerd by the users' guide "Configuring Containerd", those of etcd with a client certificate
// and, with the argument for it, by every client.
#include "common/tls/pki.h"
#include "tests/cluster/scraped-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

constexpr const char* kNode = "10.5.0.2";
constexpr double kScraped = 60;  // s, beside other tests

// The guide's file, and the argument of docs/metrics.md.
constexpr const char* kPatch =
    R"([{"op": "add", "path": "/machine/files", "value": [{"content": "[metrics]\n  address = \"0.0.0.0:11234\"\n", "path": "/var/cri/conf.d/metrics.toml", "op": "create"}]},
        {"op": "add", "path": "/cluster/etcd/extraArgs", "value": {"listen-metrics-urls": "http://0.0.0.0:2381"}}])";

// A part of the machine config, from its key on.
std::string behind(const std::string& text, const std::string& key) {
  auto at = text.find(key);
  EXPECT_NE(std::string::npos, at) << key << " is not in the config";
  return at == std::string::npos ? "" : text.substr(at);
}

struct ProgramMetrics : testing::Test, ScrapedCluster {
  ProgramMetrics()
      : ScrapedCluster("programs", {"--masters", "1", "--workers", "0", "--config-patch", kPatch}) {
  }

  // A client of etcd's CA, which the config has with its key.
  void writeClientOfEtcd() const {
    auto config = cluster.ok({"-n", kNode, "read", "/system/state/config.yaml"});
    auto authority = behind(behind(behind(config, "\ncluster:"), "etcd:"), "ca:");
    auto certificate = decoded(authority, "crt"), key = decoded(authority, "key");
    auto client = pki::issue(kj::StringPtr(certificate.c_str()), kj::StringPtr(key.c_str()),
                             {.commonName = "prometheus", .server = false});
    write("etcd-ca.crt", certificate);
    write("etcd.crt", client.certificate.cStr());
    write("etcd.key", kj::StringPtr(client.key).cStr());
  }
  std::string jobs() const {
    auto job = [](const std::string& name, const std::string& more, const std::string& port) {
      return "  - job_name: " + name + "\n" + more + "    static_configs:\n      - targets: [\"" +
             kNode + ":" + port + "\"]\n";
    };
    auto etcdTls = "    scheme: https\n    tls_config: {ca_file: " + folder +
                   "/etcd-ca.crt, cert_file: " + folder + "/etcd.crt, key_file: " + folder +
                   "/etcd.key}\n";
    auto noCertificate =
        "    scheme: https\n    tls_config: {ca_file: " + folder + "/etcd-ca.crt}\n";
    return job("containerd", "    metrics_path: /v1/metrics\n", "11234") +
           job("etcd", etcdTls, "2379") + job("etcd-plain", "", "2381") +
           job("nobody", noCertificate, "2379");
  }
};

}  // namespace

// Catches: a file that containerd does not read, an argument that etcd does not get, a port that
// does not answer outside of the node; etcd's own port, open to clients without a certificate.
TEST_F(ProgramMetrics, OfContainerdAndEtcd) {
  writeClientOfEtcd();
  cluster.ok({"-n", kNode, "bootstrap"}, 120);
  startPrometheus({kNode}, "groups: []\n", jobs());
  auto scraped = [&](const std::string& expression) {
    EXPECT_TRUE(eventually([&] { return holds(expression); }, kScraped, 0.5))
        << expression << ": " << query("up") << prometheus->err();
  };
  scraped("up{job=\"containerd\"} == 1");
  scraped("containerd_build_info_total{job=\"containerd\"} > 0");
  for (std::string job : {"etcd", "etcd-plain"}) {
    scraped("up{job=\"" + job + "\"} == 1");
    scraped("etcd_server_has_leader{job=\"" + job + "\"} == 1");
    scraped("etcd_disk_wal_fsync_duration_seconds_count{job=\"" + job + "\"} > 0");
  }
  scraped("up{job=\"nobody\"} == 0");
}

}  // namespace talos
