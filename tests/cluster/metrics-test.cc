// Metrics of nodes as Prometheus gets them: real Prometheus scrapes two nodes in containers, within
// their network, with the configuration and the alerts of the documents.
#include <signal.h>
#include <unistd.h>

#include "tests/cluster/scraped-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::run;
using harness::slurp;

constexpr const char* kMaster = "10.5.0.2";
constexpr const char* kWorker = "10.5.0.3";
constexpr double kScrapes = 90;  // s, beside other tests

struct Metrics : testing::Test, ScrapedCluster {
  Metrics() : ScrapedCluster("metrics", {"--masters", "1", "--workers", "1", "--with-metrics"}) {}

  // The answer to a request with these headers, each with its line break, and these further
  // arguments for openssl. The server's certificate is verified.
  std::string ask(const std::string& node, const std::string& headers,
                  const std::string& arguments = "") const {
    write("request",
          "GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n" + headers + "\r\n");
    auto result = run(inside({"sh", "-c", clientOf(node, node, arguments)}), 30);
    return result.out.empty() ? result.err : result.out;
  }
  // The answer that this host gets through the endpoint, with the certificate of the talosconfig.
  std::string askFromHost(const std::string& node) const {
    write("request", "GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    auto client = clientOf(node, cluster.endpoint(node), byClientCertificate());
    auto result = run({"sh", "-c", client}, 30);
    return result.out.empty() ? result.err : result.out;
  }
  std::string byClientCertificate() const {
    return "-cert " + folder + "/client.crt -key " + folder + "/openssl.key";
  }
  std::string clientOf(const std::string& node, const std::string& address,
                       const std::string& arguments) const {
    return "openssl s_client -quiet -ign_eof -verify_return_error -verify_ip " + node +
           " -connect " + address + ":50002 -CAfile " + folder + "/ca.crt " + arguments + " <" +
           folder + "/request";
  }
  std::string byCertificateConfig() const {
    return "  - job_name: by-certificate\n    scheme: https\n    tls_config: {ca_file: " + folder +
           "/ca.crt, cert_file: " + folder + "/client.crt, key_file: " + folder +
           "/client.key}\n    static_configs:\n      - targets: [\"" + kMaster + ":50002\"]\n";
  }
  static std::string bodyOf(const std::string& answer) {
    auto at = answer.find("\r\n\r\n");
    return at == std::string::npos ? "" : answer.substr(at + 4);
  }
  static std::string token() {
    return std::string("Authorization: Bearer ") + kMetricsToken + "\r\n";
  }
};

// Catches: a documented name that no node has. Containers have no own sensors and disks, these
// nodes share no address, run no Kubernetes, have kept no boot and send their logs nowhere.
void expectNamesOfDocuments(const std::string& text) {
  const std::regex absent(
      "talos_(sensor|disk|memory_errors|vip|kube|kubernetes|boot|log_destination)_.*|node_(disk|nf_"
      "conntrack)_.*|"
      "talos_cgroup_(parent_)?oom_kills_total|talos_etcd_(alarms|backup|db|has_leader|raft).*|"
      "node_pressure_memory_stalled_seconds_total");
  std::regex name("\\b(node|talos)_[A-Za-z0-9_]+");
  for (std::string page : {"dashboards/node.json", "dashboards/alerts.yaml"}) {
    auto content = documentOf(page);
    for (std::sregex_iterator it(content.begin(), content.end(), name), end; it != end; ++it) {
      auto named = it->str();
      bool there = contains(text, "\n" + named + "{") || contains(text, "\n" + named + " ");
      EXPECT_TRUE(there || std::regex_match(named, absent)) << page << ": " << named;
    }
  }
}

void expectWellFormed(const std::string& text, const std::string& folder) {
  std::ofstream(folder + "/text") << text;
  auto lint = run({"sh", "-c", "promtool check metrics <" + folder + "/text 2>&1"}, 30);
  for (auto& line : harness::lines(lint.out)) {
    // Names of node_exporter.
    bool camelCase = contains(line, "snake_case") &&
                     std::regex_search(line, std::regex("^node_(memory|netstat|sockstat)_"));
    EXPECT_TRUE(camelCase || line.empty()) << line;
  }
}

}  // namespace

// Catches: metrics that Prometheus does not accept, that a node does not have, or that every client
// gets; an alert that does not fire, or fires for all nodes.
TEST_F(Metrics, OfARealCluster) {
  EXPECT_TRUE(contains(cluster.ok({"-n", kWorker, "get", "metricsendpointstatuses"}),
                       "https://:50002/metrics"));
  auto refused = ask(kMaster, "");
  EXPECT_TRUE(contains(refused, "401 Unauthorized")) << refused;
  EXPECT_TRUE(contains(refused, "os:reader")) << refused;
  auto byCertificate = ask(kMaster, "", byClientCertificate());
  EXPECT_TRUE(contains(byCertificate, "node_load1 ")) << byCertificate;
  auto shown = cluster.ok(
      {"cluster", "show", "--name", "metrics", "--state", cluster.folder() + "/clusters"});
  for (auto node : {kMaster, kWorker}) {
    EXPECT_TRUE(contains(shown, "https://" + cluster.endpoint(node) + ":50002/metrics")) << shown;
    auto fromHost = askFromHost(node);
    EXPECT_TRUE(contains(fromHost, "node_load1 ")) << fromHost;
  }

  std::string all;
  for (auto node : {kMaster, kWorker}) {
    auto text = bodyOf(ask(node, token()));
    expectWellFormed(text, folder);
    EXPECT_FALSE(std::regex_search(text, std::regex("metrics_part_up\\{[^}]*\\} 0"))) << text;
    EXPECT_TRUE(
        std::regex_search(text, std::regex("talos_service_healthy\\{service=\"apid\"\\} 1")));
    EXPECT_TRUE(contains(text, "talos_cgroup_memory_bytes{cgroup=\"system/apid\"}"));
    EXPECT_FALSE(contains(text, kMetricsToken));
    all += text;
  }
  EXPECT_TRUE(
      contains(all, "talos_certificate_expiry_timestamp_seconds{certificate=\"api-server\""));
  EXPECT_TRUE(std::regex_search(
      all, std::regex("talos_api_calls_total\\{method=\"[A-Za-z]+.[A-Za-z]+\",role=\"os:admin\","
                      "result=\"OK\"\\} [1-9]")));
  expectNamesOfDocuments(all);
  auto open = ask(kWorker, token() + "Accept: application/openmetrics-text\r\n");
  EXPECT_TRUE(contains(open, "\n# EOF\n")) << open;

  // Times of a test.
  auto alerts = std::regex_replace(documentOf("dashboards/alerts.yaml"),
                                   std::regex("for: \\d+[mh]"), "for: 2s");
  startPrometheus({kMaster, kWorker}, alerts, byCertificateConfig());
  ASSERT_TRUE(eventually([&] { return holds("sum(up) == 3"); }, kScrapes, 0.5))
      << query("up") << prometheus->err();

  printf("series of a scrape: %sseconds of a scrape: %s",
         query("max(scrape_samples_scraped)").c_str(),
         query("max(scrape_duration_seconds)").c_str());

  // One service crashes again and again, on one node.
  auto starts =
      "talos_service_starts_total{instance=\"" + std::string(kWorker) + ":50002\",service=\"cri\"}";
  ASSERT_TRUE(eventually([&] { return holds(starts); }, kScrapes, 0.5)) << query("up");
  for (int times = 2; times <= 5; ++times) {
    auto pid = cluster.program("metrics-worker-1", "containerd");
    ASSERT_GT(pid, 0);
    kill(pid, SIGKILL);
    ASSERT_TRUE(
        eventually([&] { return holds(starts + " >= " + std::to_string(times)); }, kScrapes, 0.2))
        << query(starts);
  }
  auto alert = [](const std::string& name, const std::string& rest) {
    return "ALERTS{alertstate=\"firing\",alertname=\"" + name + "\"" + rest + "}";
  };
  EXPECT_TRUE(eventually(
      [&] {
        return holds(alert("TalosServiceRestarts",
                           ",service=\"cri\",instance=\"" + std::string(kWorker) + ":50002\""));
      },
      kScrapes, 0.5))
      << query("ALERTS");
  EXPECT_FALSE(holds(alert("TalosServiceRestarts", ",service!=\"cri\""))) << query("ALERTS");
  EXPECT_FALSE(
      holds(alert("TalosServiceRestarts", ",instance=\"" + std::string(kMaster) + ":50002\"")))
      << query("ALERTS");
  EXPECT_FALSE(holds(alert("TalosNodeDown", ""))) << query("ALERTS");
  EXPECT_FALSE(holds(alert("TalosMetricsIncomplete", ""))) << query("ALERTS");

  // The key goes, and the port with it.
  cluster.ok({"-n", kWorker, "patch", "machineconfig", "--patch",
              R"([{"op": "remove", "path": "/machine/metrics"}])"});
  EXPECT_TRUE(
      eventually([&] { return contains(ask(kWorker, token()), "Connection refused"); }, 20));
  EXPECT_TRUE(eventually(
      [&] {
        return holds(alert("TalosNodeDown", ",instance=\"" + std::string(kWorker) + ":50002\""));
      },
      kScrapes, 0.5))
      << query("ALERTS");
}

// Catches: a rule that Prometheus does not accept, and a rule that fires when it should not.
TEST(Alerts, AreValidAndDoWhatTheyShould) {
  std::string folder = TALOS_SOURCE_DIR "/docs/dashboards/";
  auto check = run({"promtool", "check", "rules", folder + "alerts.yaml"}, 30);
  EXPECT_EQ(0, check.status) << check.out << check.err;
  auto cases = run({"promtool", "test", "rules", folder + "alerts-test.yaml"}, 60);
  EXPECT_EQ(0, cases.status) << cases.out << cases.err;
  std::regex rule("alert: (\\w+)"), tested("alertname: (\\w+)");
  auto rules = slurp(folder + "alerts.yaml"), tests = slurp(folder + "alerts-test.yaml");
  std::set<std::string> covered;
  for (std::sregex_iterator it(tests.begin(), tests.end(), tested), end; it != end; ++it) {
    covered.insert((*it)[1]);
  }
  for (std::sregex_iterator it(rules.begin(), rules.end(), rule), end; it != end; ++it) {
    EXPECT_EQ(1u, covered.count((*it)[1])) << (*it)[1] << " has no test";
  }
}

}  // namespace talos
