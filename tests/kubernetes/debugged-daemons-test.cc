// A developer debugs the daemons of a running cluster: each is called, logs more, dies of a fault
// and explains it, leaves a core, and is replaced, while pods of the cluster call a Service.
#include <gmock/gmock.h>

#include <filesystem>
#include <regex>

#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;

constexpr double kNodeUp = 420, kComesBack = 60;
constexpr const char* kMaster = "10.5.0.2";

// One call after the other, and a line for each.
constexpr const char* kCaller = R"(apiVersion: v1
kind: Pod
metadata: {name: caller, labels: {app: caller}}
spec:
  nodeName: debugged-worker-1
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: busybox:1.37
    command: [sh, -c, "while true; do wget -q -T 3 -O /dev/null http://$WEB_SERVICE_HOST/ && echo good || echo failed; usleep 20000; done"]
)";

struct Daemon {
  const char *service, *function;
};
constexpr Daemon kDaemons[] = {
    {"networkd", "talos::networkd::run(bool, bool)"},
    {"apid", "talos::apid::run()"},
    {"trustd", "talos::trustd::run()"},
    {"etcd-supervisor", "talos::supervisor::run()"},
    {"vipd", "talos::vipd::run()"},
    {"kubed", "talos::kubed::run(bool)"},
    {"logd", "talos::logd::run()"},
};

class DebuggedNode {
 public:
  explicit DebuggedNode(const KubeCluster& cluster) : cluster(cluster) {}

  harness::Result tried(std::vector<std::string> arguments, double seconds = 60) const {
    arguments.insert(arguments.begin(), {"-n", kMaster, "--timeout", "20s"});
    return cluster.talos.talosctl(std::move(arguments), seconds);
  }
  std::string ok(std::vector<std::string> arguments) const {
    auto result = tried(std::move(arguments));
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }
  std::map<std::string, int> pids() const { return cluster.talos.pidsOfServices(kMaster); }
  int pid(const std::string& service) const { return pids()[service]; }
  // It runs as another process than this one, and is healthy.
  bool isBack(const std::string& service, int before) const {
    return eventually(
        [&] {
          auto now = pid(service);
          return now != 0 && now != before &&
                 !contains(tried({"service", service}).out, "HEALTH     Fail");
        },
        kComesBack, 0.1);
  }
  // Returns the first report of a service; empty if there is no report yet.
  std::string report(const std::string& service) const {
    std::smatch match;
    auto listed = tried({"crashes"}).out;
    std::regex row("(" + service + "-[0-9]{8}T[0-9]{6}Z)");
    return std::regex_search(listed, match, row) ? match[1].str() : "";
  }

 private:
  const KubeCluster& cluster;
};

// How often the pod got an answer, and how often it did not.
std::pair<size_t, size_t> callsOf(const KubeCluster& cluster) {
  size_t good = 0, failed = 0;
  for (auto& line : harness::lines(cluster.ok({"logs", "caller"}))) {
    (line == "good" ? good : failed) += 1;
  }
  return {good, failed};
}

struct DebuggedDaemons : public KubeHost {
  ~DebuggedDaemons() noexcept override {}

  // All else is left as it is.
  static void expectUntouched(const std::string& service, std::map<std::string, int> before,
                              std::map<std::string, int> after) {
    for (auto& [id, pid] : before) {
      EXPECT_EQ(id == service, after[id] != pid) << id << ", for " << service;
    }
  }

  static void explainsItsCrash(const DebuggedNode& node, const Daemon& daemon,
                               const std::string& symbols) {
    auto before = node.pid(daemon.service);
    node.ok({"debug", "cores", daemon.service, "on"});
    node.ok({"service", daemon.service, "kill", "--signal", "SIGSEGV"});
    ASSERT_TRUE(node.isBack(daemon.service, before)) << node.tried({"services"}).out;
    std::string report;
    ASSERT_TRUE(
        eventually([&] { return (report = node.report(daemon.service)) != ""; }, kComesBack, 0.1));
    auto text = node.ok({"crashes", report, "--symbols", symbols});
    EXPECT_THAT(text, HasSubstr(daemon.function));
    EXPECT_THAT(text, HasSubstr("Core: "));
    EXPECT_THAT(text, testing::Not(HasSubstr("Missing:")));
  }

  static void saysMore(const DebuggedNode& node, const Daemon& daemon) {
    auto before = node.pid(daemon.service);
    node.ok({"debug", "log-level", daemon.service, "debug"});
    EXPECT_EQ(before, node.pid(daemon.service));
    EXPECT_THAT(node.ok({"debug", "log-level", daemon.service}), HasSubstr("debug"));
  }
};

// Catches: a daemon whose crash, or whose replacement by another program, disturbs another daemon,
// a pod, or the network between pods.
TEST_F(DebuggedDaemons, LeaveAllElseAsItIs) {
  KubeCluster cluster("debugged", 1, 1, {"--use-vip"});
  cluster.awaitReady(2, kNodeUp);
  cluster.awaitPods("kube-system", "k8s-app=flannel", 2, kPodsUp);
  if (HasFailure()) return;
  cluster.apply(kWebServers);
  cluster.awaitPods("default", "app=web", 2, kPodsUp);
  cluster.apply(kCaller);
  cluster.awaitPods("default", "app=caller", 1, kPodsUp);
  ASSERT_TRUE(eventually([&] { return callsOf(cluster).first > 10; }, kPodsUp))
      << cluster.overview();
  DebuggedNode node(cluster);
  node.ok({"patch", "mc", "--immediate", "-p",
           R"([{"op": "add", "path": "/machine/logging", )"
           R"("value": {"destinations": [{"endpoint": "udp://10.5.0.1:5140"}]}}])"});
  ASSERT_TRUE(eventually([&] { return node.pid("logd") != 0; }, kComesBack));

  auto symbols = harness::madeSymbols(TALOS_SOURCE_DIR);
  auto programs = std::filesystem::path(harness::talosctlPath()).parent_path();
  auto pods = cluster.pods();
  auto worker = cluster.talos.pidsOfServices("10.5.0.3");
  for (auto& daemon : kDaemons) {
    SCOPED_TRACE(daemon.service);
    saysMore(node, daemon);
    auto before = node.pids();
    auto calls = callsOf(cluster).first;
    explainsItsCrash(node, daemon, symbols);
    if (HasFatalFailure()) return;
    expectUntouched(daemon.service, before, node.pids());
    before = node.pids();
    auto replaced = node.tried({"debug", "replace", "--state", cluster.talos.folder() + "/clusters",
                                daemon.service, programs / daemon.service});
    EXPECT_EQ(replaced.status, 0) << replaced.err;
    std::cout << replaced.out;
    expectUntouched(daemon.service, before, node.pids());
    EXPECT_TRUE(eventually([&] { return callsOf(cluster).first > calls + 10; }, kComesBack));
  }
  auto [good, failed] = callsOf(cluster);
  std::cout << good << " calls of the Service, " << failed << " without an answer\n";
  EXPECT_EQ(failed, 0u);
  EXPECT_EQ(worker, cluster.talos.pidsOfServices("10.5.0.3"));
  auto after = cluster.pods();
  for (auto& [name, pod] : pods) {
    EXPECT_EQ(pod.restarts, after[name].restarts) << name;
    EXPECT_TRUE(after[name].good || pod.over) << name;
  }
}

}  // namespace
}  // namespace talos
