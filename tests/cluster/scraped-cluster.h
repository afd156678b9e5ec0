// Clusters in containers with machine.metrics, and Debian's Prometheus within their network, with
// the configuration and the alerts of the documents.
#pragma once

#include <gtest/gtest.h>
#include <kj/encoding.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <set>

#include "tests/harness/cluster.h"

namespace talos {

constexpr const char* kMetricsToken = "4sJwq8vGdd0uTq1pXf27";

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  auto at = text.find(from);
  EXPECT_NE(std::string::npos, at) << from << " is not in " << text;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

inline std::string documentOf(const std::string& name) {
  return harness::slurp(TALOS_SOURCE_DIR "/docs/" + name);
}

// Returns the first block of YAML.
inline std::string scrapeConfig() {
  auto text = documentOf("metrics.md");
  auto begin = text.find("```yaml\n") + 8;
  return text.substr(begin, text.find("```", begin) - begin);
}

inline std::string decoded(const std::string& text, const std::string& key) {
  std::smatch found;
  EXPECT_TRUE(std::regex_search(text, found, std::regex("\\b" + key + ": \"?([A-Za-z0-9+/=]+)")));
  auto bytes = kj::decodeBase64(kj::StringPtr(found[1].str().c_str()).asArray());
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

// Returns the rules with a tenth of their times, for tests that wait for alerts.
inline std::string tenthOfTimes(const std::string& rules) {
  std::string out;
  std::regex time("(for: |\\[)(\\d+)([mh])(\\]|\\n)");
  std::sregex_iterator it(rules.begin(), rules.end(), time), end;
  size_t at = 0;
  for (; it != end; ++it) {
    out += rules.substr(at, size_t(it->position()) - at);
    int seconds = std::stoi((*it)[2]) * ((*it)[3] == "h" ? 360 : 6);
    out += (*it)[1].str() + std::to_string(seconds) + "s" + (*it)[4].str();
    at = size_t(it->position() + it->length());
  }
  return out + rules.substr(at);
}

// Returns the flags of `cluster create` for nodes with machine.metrics.
inline std::vector<std::string> metricsFlags() {
  return {"--config-patch", R"([{"op": "add", "path": "/machine/metrics", "value": {"token": ")" +
                                std::string(kMetricsToken) + R"("}}])"};
}

// Prometheus in the network of a cluster that was made with metricsFlags().
struct ClusterPrometheus {
  // The cluster must outlive this object.
  explicit ClusterPrometheus(const harness::Cluster& scraped)
      : folder(scraped.folder() + "/prometheus"), scraped(scraped) {
    std::filesystem::create_directory(folder);
    auto talosconfig = harness::slurp(scraped.talosconfig());
    write("ca.crt", decoded(talosconfig, "ca"));
    write("client.crt", decoded(talosconfig, "crt"));
    auto key = decoded(talosconfig, "key");
    write("client.key", key);
    // openssl knows keys of Ed25519 by the general label.
    write("openssl.key", std::regex_replace(key, std::regex("ED25519 "), ""));
    write("token", kMetricsToken);
  }

  std::string folder;
  std::optional<harness::Background> prometheus;

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder + "/" + name) << text;
  }
  // Runs the command in the network of the nodes.
  std::vector<std::string> inside(std::vector<std::string> command) const {
    std::vector<std::string> all = {
        "nsenter", "--net=/proc/" + std::to_string(scraped.supervisor()) + "/ns/net"};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  // Starts Prometheus, which scrapes these nodes each second; `alerts` has the rules, `more`
  // further jobs.
  void startPrometheus(const std::vector<std::string>& nodes, const std::string& alerts,
                       const std::string& more = "") {
    auto config = scrapeConfig();
    config = replaced(config, "/etc/prometheus/talos-token", folder + "/token");
    config = replaced(config, "/etc/prometheus/talos-ca.crt", folder + "/ca.crt");
    std::string targets;
    for (auto& node : nodes) targets += (targets.empty() ? "" : ", ") + node + ":50002";
    config = std::regex_replace(config, std::regex("targets: \\[[^\\]]*\\]"),
                                "targets: [" + targets + "]");
    write("alerts.yaml", alerts);
    write("prometheus.yaml",
          "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [" + folder +
              "/alerts.yaml]\n" + config + more);
    prometheus.emplace(
        inside({"prometheus", "--config.file=" + folder + "/prometheus.yaml",
                "--storage.tsdb.path=" + folder + "/data", "--web.listen-address=127.0.0.1:9090"}));
  }
  std::string query(const std::string& expression) const {
    auto result = harness::run(
        inside({"promtool", "query", "instant", "http://127.0.0.1:9090", expression}), 30);
    return result.out + result.err;
  }
  // Returns true if the expression gives one or more series.
  bool holds(const std::string& expression) const {
    return harness::contains(query(expression), " => ");
  }

 private:
  const harness::Cluster& scraped;
};

struct MetricsCluster {
  MetricsCluster(const std::string& name, std::vector<std::string> flags)
      : cluster(name, withMetrics(std::move(flags))) {}
  harness::Cluster cluster;

 private:
  static std::vector<std::string> withMetrics(std::vector<std::string> flags) {
    auto more = metricsFlags();
    flags.insert(flags.end(), {"--provisioner", "container"});
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
};

// Both.
struct ScrapedCluster : MetricsCluster, ClusterPrometheus {
  ScrapedCluster(const std::string& name, std::vector<std::string> flags)
      : MetricsCluster(name, std::move(flags)), ClusterPrometheus(cluster) {}
};

}  // namespace talos
