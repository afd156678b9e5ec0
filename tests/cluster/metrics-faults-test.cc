// Ten minutes of faults in a cluster of five nodes, watched by Prometheus: the expected alerts of
// the documents fire, for the affected nodes, and no others. Times in the alerts are a tenth of
// those in the documents.
#include <signal.h>

#include <chrono>

#include "tests/cluster/scraped-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using Firing = std::set<std::string>;

constexpr double kFires = 120, kQuiet = 60;  // s

struct MetricsFaults : testing::Test, ScrapedCluster {
  std::vector<std::string> nodes = {"10.5.0.2", "10.5.0.3", "10.5.0.4", "10.5.0.5", "10.5.0.6"};
  Firing atRest;

  MetricsFaults() : ScrapedCluster("faults", {"--masters", "3", "--workers", "2", "--use-vip"}) {
    cluster.ok({"bootstrap", "-n", nodes[0]}, 180);
    startPrometheus(nodes, tenthOfTimes(documentOf("dashboards/alerts.yaml")));
  }

  // "TalosNodeDown 10.5.0.5", "TalosEtcdMemberMissing".
  Firing firing() const {
    Firing found;
    auto text = query("ALERTS{alertstate=\"firing\"}");
    std::regex name("alertname=\"(\\w+)\""), instance("instance=\"([0-9.]+):");
    for (auto& line : harness::lines(text)) {
      std::smatch alert, node;
      if (!std::regex_search(line, alert, name)) continue;
      bool of = std::regex_search(line, node, instance);
      found.insert(alert[1].str() + (of ? " " + node[1].str() : ""));
    }
    for (auto& one : atRest) found.erase(one);
    return found;
  }
  static std::string text(const Firing& all) {
    std::string out;
    for (auto& one : all) out += one + "; ";
    return out.empty() ? "none" : out;
  }
  // All of these fire, and only they and `also` do, within the time.
  void expectFiring(const std::string& fault, const Firing& must, const Firing& also = {}) const {
    Firing now;
    bool there = eventually(
        [&] {
          now = firing();
          for (auto& one : must) {
            if (!now.contains(one)) return false;
          }
          return true;
        },
        kFires, 1);
    EXPECT_TRUE(there) << fault << ": " << text(must) << " should fire, " << text(now) << " do";
    for (auto& one : now) {
      EXPECT_TRUE(must.contains(one) || also.contains(one)) << fault << ": " << one << " fires";
    }
    printf("%s: %s\n", fault.c_str(), text(now).c_str());
  }
  void expectQuiet(const std::string& fault) const {
    Firing now;
    EXPECT_TRUE(eventually([&] { return (now = firing()).empty(); }, 3 * kFires, 1))
        << "after " << fault << ": " << text(now);
  }
};

}  // namespace

// Catches: an alert that does not fire with its fault, that names another node, or that stays after
// the fault.
TEST_F(MetricsFaults, FireTheirAlertsAndNoOthers) {
  auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] { return holds("sum(up) == 5"); }, kFires, 1)) << query("up");
  ASSERT_TRUE(eventually([&] { return holds("sum(talos_etcd_up) == 3"); }, kFires, 1));
  // No Kubernetes runs in this test, and alerts about it may fire: alerts that still fire after a
  // while are the state at rest.
  eventually([&] { return false; }, kQuiet, 5);
  atRest = firing();
  printf("at rest: %s\n", text(atRest).c_str());
  for (auto& one : atRest) {
    EXPECT_TRUE(contains(one, "Kubernetes") || contains(one, "ApiServer") ||
                contains(one, "ServiceUnhealthy") || contains(one, "HasProblems"))
        << one;
  }

  cluster.ok({"cluster", "node", "kill", "faults-worker-1"});
  expectFiring("a worker is off", {"TalosNodeDown 10.5.0.5"});
  cluster.ok({"cluster", "node", "start", "faults-worker-1"});
  expectQuiet("a worker was off");

  cluster.ok({"cluster", "node", "kill", "faults-master-3"});
  expectFiring("a control-plane node is off",
               {"TalosNodeDown 10.5.0.4", "TalosEtcdNoFailureTolerated"});
  cluster.ok({"cluster", "node", "start", "faults-master-3"});
  expectQuiet("a control-plane node was off");

  cluster.ok({"-n", "10.5.0.3", "service", "etcd", "stop"});
  expectFiring("etcd of one node is stopped", {"TalosEtcdDown 10.5.0.3"},
               {"TalosEtcdNoFailureTolerated", "TalosServiceStopped 10.5.0.3",
                "TalosServiceUnhealthy 10.5.0.3", "TalosMachineHasProblems 10.5.0.3"});
  cluster.ok({"-n", "10.5.0.3", "service", "etcd", "start"});
  expectQuiet("etcd of one node was stopped");

  auto brain = cluster.program("faults-worker-2", "machined");
  ASSERT_GT(brain, 0);
  kill(brain, SIGKILL);
  expectFiring("machined was killed", {"TalosMachinedRestarted 10.5.0.6"});

  for (int times = 0; times < 3; ++times) {
    auto pid = cluster.program("faults-worker-1", "containerd");
    ASSERT_GT(pid, 0);
    kill(pid, SIGKILL);
    ASSERT_TRUE(eventually(
        [&] {
          auto now = cluster.program("faults-worker-1", "containerd");
          return now > 0 && now != pid;
        },
        kFires));
    auto starts = "talos_service_starts_total{instance=\"10.5.0.5:50002\",service=\"cri\"}";
    ASSERT_TRUE(
        eventually([&] { return holds(starts + std::string(" >= ") + std::to_string(times + 2)); },
                   kFires, 0.5));
  }
  expectFiring("containerd was killed three times", {"TalosServiceRestarts 10.5.0.5"},
               {"TalosMachinedRestarted 10.5.0.6"});
  expectQuiet("crashes of programs");
  printf("after %.0f s; series of a scrape: %s",
         std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(),
         query("max(scrape_samples_scraped)").c_str());
}

}  // namespace talos
