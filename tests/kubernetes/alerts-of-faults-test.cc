// Ten faults of a control plane and a worker with Kubernetes, one after the other, watched by
// Prometheus with the alerts of the documents: each alert fires, names the node and what is wrong
// on it, and resolves when the fault is undone. Times in the alerts are a tenth of those in the
// documents. Prints a table in Markdown.
//
// The alert about the clock has no fault here: a node in a container follows its host's clock, and
// docs/dashboards/alerts-test.yaml tests the rule.
#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <signal.h>
#include <stdio.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>

#include "common/tls/pki.h"
#include "tests/cluster/scraped-cluster.h"
#include "tests/harness/filled-disk.h"
#include "tests/kubernetes/illness.h"

namespace talos {
namespace {

using harness::eventually;
using harness::FilledDisk;
using Labels = std::map<std::string, std::string>;

// s, on a busy machine. The longest window of a rule is a tenth of an hour.
constexpr double kFires = 240, kResolves = 600, kScraped = 120;
constexpr unsigned kCrashes = 3;
constexpr const char* kReceiver = "10.5.0.1";
constexpr const char* kReceiverPort = "5140";

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string quoted(kj::StringPtr pem) {
  return std::string("\"") + kj::encodeBase64(pem.asBytes()).cStr() + "\"";
}

struct ExpectedAlert {
  std::string name;
  const KubeNode* node;
  std::string label = {};  // that says what is wrong; empty: the node does
  std::string value = {};  // a regular expression
};

bool isAlert(const Labels& labels, const ExpectedAlert& expected) {
  auto of = [&](const std::string& label) {
    auto found = labels.find(label);
    return found == labels.end() ? std::string() : found->second;
  };
  return of("alertname") == expected.name && of("instance") == expected.node->address + ":50002" &&
         (expected.label.empty() ||
          std::regex_match(of(expected.label), std::regex(expected.value)));
}

// Returns the alert with what it names: "TalosServiceStopped: instance 10.5.0.3:50002, service
// kubelet".
std::string textOf(const Labels& labels) {
  std::string text = labels.at("alertname") + ":";
  for (auto& [label, value] : labels) {
    static const std::set<std::string> kOfEach = {"alertname", "alertstate", "job", "severity",
                                                  "cluster"};
    if (!kOfEach.contains(label)) text += " " + label + " " + value + ",";
  }
  text.pop_back();
  return text;
}

struct AlertedFault {
  const char* name;
  std::vector<ExpectedAlert> expected;
  std::function<void()> make;
  std::function<void()> undo;
  std::function<void()> clean = nullptr;  // called when the alerts have resolved
};

// The cluster and the Prometheus that watches it.
class WatchedFaults {
 public:
  explicit WatchedFaults(const KubeCluster& cluster)
      : cluster(cluster), prometheus(cluster.talos), patient(cluster) {
    prometheus.startPrometheus({patient.master.address, patient.worker.address},
                               tenthOfTimes(documentOf("dashboards/alerts.yaml")));
  }

  void examineAll() {
    ASSERT_TRUE(eventually([&] { return prometheus.holds("sum(up) == 2"); }, kScraped, 1))
        << prometheus.query("up");
    for (auto& fault : faults()) examine(fault);
    printf(
        "| Fault | Alert and what it names | Fired after | Others | Resolved after |\n"
        "|---|---|---|---|---|\n%s",
        table.c_str());
  }

 private:
  const KubeCluster& cluster;
  ClusterPrometheus prometheus;
  Patient patient;
  std::unique_ptr<FilledDisk> disk;
  std::optional<harness::Background> receiver;
  std::string table;

  std::vector<AlertedFault> faults();
  std::vector<AlertedFault> faultsOfServices();
  std::vector<Labels> firing() const;
  bool fires(const ExpectedAlert& expected) const;
  void examine(const AlertedFault& fault);
  std::string others(const AlertedFault& fault, const std::vector<Labels>& before) const;
  double startsOf(const KubeNode& node, const std::string& service) const;
  void crash(const KubeNode& node, const std::string& program, const std::string& service);
  void endAuthoritySoon();
  void receiveLogs();
};

std::vector<Labels> WatchedFaults::firing() const {
  static const std::regex label("(\\w+)=\"([^\"]*)\"");
  std::vector<Labels> all;
  for (auto& line : harness::lines(prometheus.query("ALERTS{alertstate=\"firing\"}"))) {
    Labels labels;
    for (std::sregex_iterator it(line.begin(), line.end(), label), end; it != end; ++it) {
      labels[(*it)[1].str()] = (*it)[2].str();
    }
    if (labels.contains("alertname")) all.push_back(labels);
  }
  return all;
}

bool WatchedFaults::fires(const ExpectedAlert& expected) const {
  for (auto& labels : firing()) {
    if (isAlert(labels, expected)) return true;
  }
  return false;
}

// Returns the alerts that fire besides the expected ones and those before, and fails the test if
// one of them names the node without the fault. Problems of the other node may be a consequence.
std::string WatchedFaults::others(const AlertedFault& fault,
                                  const std::vector<Labels>& before) const {
  std::string text;
  for (auto& labels : firing()) {
    bool known = std::find(before.begin(), before.end(), labels) != before.end();
    for (auto& expected : fault.expected) known = known || isAlert(labels, expected);
    if (known) continue;
    text += (text.empty() ? "" : "; ") + textOf(labels);
    auto instance = labels.find("instance");
    if (instance == labels.end() || labels.at("alertname") == "TalosMachineHasProblems") continue;
    EXPECT_EQ(instance->second, fault.expected[0].node->address + ":50002") << textOf(labels);
  }
  return text;
}

void WatchedFaults::examine(const AlertedFault& fault) {
  SCOPED_TRACE(fault.name);
  auto before = firing();
  for (auto& expected : fault.expected) {
    EXPECT_FALSE(fires(expected)) << expected.name << " fires before the fault";
  }
  auto began = now();
  fault.make();
  // By the number of the expected alert: seconds, and the alert.
  std::map<size_t, std::pair<double, std::string>> fired;
  bool all = eventually(
      [&] {
        for (auto& labels : firing()) {
          for (size_t i = 0; i < fault.expected.size(); ++i) {
            if (isAlert(labels, fault.expected[i])) {
              fired.try_emplace(i, now() - began, textOf(labels));
            }
          }
        }
        return fired.size() == fault.expected.size();
      },
      kFires, 1);
  EXPECT_TRUE(all) << prometheus.query("ALERTS");
  auto also = others(fault, before);
  auto undone = now();
  if (fault.undo != nullptr) fault.undo();
  for (size_t i = 0; i < fault.expected.size(); ++i) {
    auto& expected = fault.expected[i];
    bool resolved = eventually([&] { return !fires(expected); }, kResolves, 1);
    EXPECT_TRUE(resolved) << expected.name << " still fires";
    char times[2][32] = {"never", "never"};
    if (fired.contains(i)) snprintf(times[0], sizeof times[0], "%.0f s", fired[i].first);
    if (resolved) snprintf(times[1], sizeof times[1], "%.0f s", now() - undone);
    auto named = fired.contains(i) ? fired[i].second : expected.name;
    auto row = std::string("| ") + fault.name + " | " + named + " | " + times[0] + " | " + also +
               " | " + times[1] + " |\n";
    fprintf(stderr, "%s", row.c_str());
    table += row;
  }
  if (fault.clean != nullptr) fault.clean();
}

// Returns how often the service has started, as Prometheus knows it; -1 if it does not.
double WatchedFaults::startsOf(const KubeNode& node, const std::string& service) const {
  auto text = prometheus.query("talos_service_starts_total{instance=\"" + node.address +
                               ":50002\",service=\"" + service + "\"}");
  static const std::regex value("=> ([0-9.]+)");
  std::smatch match;
  return std::regex_search(text, match, value) ? std::stod(match[1].str()) : -1;
}

// Kills the program again and again; Prometheus sees each start.
void WatchedFaults::crash(const KubeNode& node, const std::string& program,
                          const std::string& service) {
  auto starts = startsOf(node, service);
  ASSERT_GE(starts, 1) << service;
  for (unsigned i = 1; i <= kCrashes; ++i) {
    auto pid = cluster.talos.program(node.name, program);
    ASSERT_GT(pid, 0) << program;
    kill(pid, SIGKILL);
    ASSERT_TRUE(eventually([&] { return startsOf(node, service) >= starts + i; }, kScraped, 0.5))
        << service << " was not started again";
  }
}

// Gives the control plane a CA of the aggregation layer that ends in ten days.
void WatchedFaults::endAuthoritySoon() {
  auto authority = pki::makeAuthority({.commonName = "front-proxy",
                                       .keyType = pki::KeyType::kEcdsaP256,
                                       .lifetime = 10 * 24 * kj::HOURS});
  auto value =
      "{\"crt\": " + quoted(authority.certificate) + ", \"key\": " + quoted(authority.key) + "}";
  patient.patch(patient.master,
                R"([{"op": "replace", "path": "/cluster/aggregatorCA", "value": )" + value + "}]");
}

void WatchedFaults::receiveLogs() {
  auto folder = prometheus.folder;
  std::ofstream(folder + "/rsyslog.conf")
      << "global(workDirectory=\"" << folder << "\")\nmodule(load=\"imtcp\")\n"
      << "action(type=\"omfile\" file=\"" << folder << "/logs\")\n"
      << "input(type=\"imtcp\" address=\"" << kReceiver << "\" port=\"" << kReceiverPort << "\")\n";
  receiver.emplace(prometheus.inside(
      {"/usr/sbin/rsyslogd", "-n", "-f", folder + "/rsyslog.conf", "-i", folder + "/pid"}));
}

std::vector<AlertedFault> WatchedFaults::faultsOfServices() {
  auto &worker = patient.worker, &master = patient.master;
  auto ready = [this] { cluster.awaitReady(cluster.nodes.size(), kClusterUp); };
  auto restore = [this, ready] {
    patient.restore();
    ready();
  };
  return {
      {.name = "the kubelet is stopped",
       .expected = {{"TalosServiceStopped", &worker, "service", "kubelet"},
                    {"TalosKubernetesNodeNotReady", &worker, "node", worker.name}},
       .make = [this] { patient.stop(patient.worker, "kubelet"); },
       .undo = restore},
      {.name = "containerd crashes again and again",
       .expected = {{"TalosServiceRestarts", &worker, "service", "cri"}},
       .make = [this] { crash(patient.worker, "containerd", "cri"); },
       .undo = ready},
      {.name = "networkd crashes again and again",
       .expected = {{"TalosServiceRestarts", &worker, "service", "networkd"}},
       .make = [this] { crash(patient.worker, "networkd", "networkd"); },
       .undo = ready},
      {.name = "machined crashes",
       .expected = {{"TalosMachinedRestarted", &worker}},
       .make =
           [this] {
             auto pid = cluster.talos.program(patient.worker.name, "machined");
             ASSERT_GT(pid, 0);
             kill(pid, SIGKILL);
           },
       .undo = nullptr},
      {.name = "etcd of the only control plane is stopped",
       .expected = {{"TalosEtcdDown", &master},
                    {"TalosServiceStopped", &master, "service", "etcd"},
                    {"TalosApiServerNotReady", &master}},
       .make = [this] { patient.stop(patient.master, "etcd"); },
       .undo = restore},
  };
}

std::vector<AlertedFault> WatchedFaults::faults() {
  auto &worker = patient.worker, &master = patient.master;
  auto all = faultsOfServices();
  std::vector<AlertedFault> more = {
      {.name = "a node is off",
       .expected = {{"TalosNodeDown", &worker}},
       .make = [this] { patient.power(patient.worker, false); },
       .undo =
           [this] {
             patient.restore();
             cluster.awaitReady(cluster.nodes.size(), kClusterUp);
           }},
      {.name = "a disk is full",
       .expected = {{"TalosDiskFull", &worker, "device", "/dev/loop[0-9]+"}},
       .make =
           [this] {
             disk = std::make_unique<FilledDisk>(prometheus.folder,
                                                 cluster.talos.process(patient.worker.name));
           },
       .undo = [this] { disk = nullptr; }},
      {.name = "the receiver of logs is away",
       .expected = {{"TalosLogsNotDelivered", &worker, "endpoint", "tcp://10\\.5\\.0\\.1:5140/?"}},
       .make =
           [this] {
             patient.patch(patient.worker, R"([{"op": "add", "path": "/machine/logging", "value": )"
                                           R"({"destinations": [{"endpoint": "tcp://)" +
                                               std::string(kReceiver) + ":" + kReceiverPort +
                                               R"("}]}}])");
           },
       .undo = [this] { receiveLogs(); },
       .clean =
           [this] {
             patient.restore();
             receiver.reset();
           }},
      {.name = "a CA ends in ten days",
       .expected = {{"TalosCertificateEnds", &master, "certificate", "kubernetes-aggregator-ca"}},
       .make = [this] { endAuthoritySoon(); },
       .undo = [this] { patient.restore(); },
       .clean = [this] { cluster.awaitReady(cluster.nodes.size(), kClusterUp); }},
      {.name = "a config is on trial, and is reverted by itself",
       .expected = {{"TalosConfigOnTrial", &worker}},
       .make =
           [this] {
             auto tried = patient.talosctl(
                 patient.worker, {"patch", "mc", "--mode=try", "--timeout", "2m", "-p",
                                  "machine: {sysctls: {net.ipv4.ip_default_ttl: \"63\"}}"});
             EXPECT_EQ(tried.status, 0) << tried.err;
           },
       .undo = nullptr}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

// Catches: an alert that does not fire with its fault on a real cluster, that names another node,
// service or disk, or that stays when the fault is undone.
TEST_F(KubeHost, AlertsFireForTheirFaultsAndResolve) {
  KubeCluster cluster("alarms", 1, 1, metricsFlags());
  cluster.awaitSystem();
  if (HasFailure()) return;
  WatchedFaults(cluster).examineAll();
}

}  // namespace talos
