// `talosctl upgrade --live` on a cluster with Kubernetes: another system takes over under running
// pods, without a reboot; a system without a working API gives way to the old one in the same way;
// a power cut during a trial starts the old system.
#include <gmock/gmock.h>

#include <regex>

#include "tests/bad-images/system-images.h"
#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::eventually;
using testing::HasSubstr;

constexpr double kUpgrade = 600;  // s, on a busy machine

// A pod of which requests to a Service go out without a pause.
constexpr const char* kLoad = R"(apiVersion: v1
kind: Pod
metadata: {name: load}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: load
    image: busybox:1.37
    command: [sh, -c, "good=0; bad=0; while true; do
      if wget -q -T 3 -O /dev/null http://$WEB_SERVICE_HOST/; then good=$((good+1)); else bad=$((bad+1)); fi;
      echo $good $bad >/tmp/now; mv /tmp/now /tmp/result; done"]
)";

// The system with other bytes in the programs that are replaced.
std::vector<Fault> otherPrograms() {
  std::vector<Fault> faults;
  for (auto name : {"machined", "apid", "networkd", "trustd", "etcd-supervisor", "kubed"}) {
    faults.push_back({std::string("usr/bin/") + name, "patch exiting eXiting"});
  }
  return faults;
}

class LiveUpgrade : public KubeHost {
 protected:
  std::unique_ptr<KubeCluster> cluster;
  std::map<std::string, std::string> boots;

  void TearDown() override {
    cluster = nullptr;
    KubeHost::TearDown();
  }
  harness::Result upgrade(const KubeNode& node, const std::string& image) const {
    auto result = cluster->talos.talosctl(
        cluster->at(
            node, {"upgrade", "--image", image, "--preserve", "--live", "--health-timeout", "90s"}),
        kUpgrade);
    fprintf(stderr, "    %s: %.0f s\n%s", node.name.c_str(), result.seconds, result.err.c_str());
    return result;
  }
  std::string status(const KubeNode& node) const {
    return cluster->talos.ok(cluster->at(node, {"get", "upgradestatus", "-o", "yaml"}));
  }
  // Returns the containers of all pods with their restarts.
  std::vector<std::string> containers() const {
    return cluster->each("pods",
                         "{.metadata.name} {.status.containerStatuses[*].containerID} "
                         "{.status.containerStatuses[*].restartCount}");
  }
  // Returns the numbers of requests that were answered, and that were not.
  std::pair<unsigned, unsigned> requests() const {
    unsigned good = 0, bad = 0;
    auto text = cluster->ok({"exec", "load", "--", "cat", "/tmp/result"});
    EXPECT_EQ(sscanf(text.c_str(), "%u %u", &good, &bad), 2) << text;
    return {good, bad};
  }
};

}  // namespace

// Catches: a takeover that restarts a pod, loses requests or reboots the node; a service that keeps
// running a program of the old system; a sick system that stays; a pod that gets no volume or
// network afterwards.
TEST_F(LiveUpgrade, ASystemTakesOverUnderRunningPods) {
  SystemImages images(folder);
  cluster = std::make_unique<KubeCluster>("live", 1, 1);
  cluster->awaitSystem();
  cluster->apply(kWebServers);
  cluster->apply(kLoad);
  cluster->awaitPods("default", "app=web", cluster->nodes.size(), kPodsUp);
  EXPECT_TRUE(eventually([&] { return requests().first > 10; }, 60));
  auto before = containers();
  for (auto& node : cluster->nodes) boots[node.name] = cluster->bootId(node);

  auto good = images.make("v9.9.1", otherPrograms());
  for (auto& node : cluster->nodes) {
    SCOPED_TRACE(node.name);
    EXPECT_EQ(upgrade(node, good).status, 0);
    EXPECT_THAT(status(node), HasSubstr("stage: done"));
    EXPECT_THAT(status(node), HasSubstr("slot: B"));
    EXPECT_EQ(cluster->bootId(node), boots[node.name]);
    EXPECT_EQ(containers(), before);
  }
  auto [answered, lost] = requests();
  printf("%u requests answered, %u lost\n", answered, lost);
  EXPECT_EQ(lost, 0u);

  auto bad = images.make("v9.9.2", {{"usr/bin/apid", "exit"}});
  auto& worker = cluster->nodes[1];
  auto result = upgrade(worker, bad);
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(std::regex_search(result.err, std::regex("was given up: .*apid"))) << result.err;
  EXPECT_THAT(status(worker), HasSubstr("slot: B"));
  EXPECT_EQ(cluster->bootId(worker), boots[worker.name]);
  EXPECT_EQ(containers(), before);
  EXPECT_EQ(requests().second, 0u);

  cluster->ok({"delete", "pod", "-l", "app=web"});
  cluster->awaitPods("default", "app=web", cluster->nodes.size(), kPodsUp);
  cluster->awaitReady(cluster->nodes.size(), kPodsUp);
}

// Catches: a power cut during a trial that starts the system on trial; a rollback without a reboot
// that reboots; a confirmed system that the next boot does not start.
TEST_F(LiveUpgrade, APowerCutDuringTheTrialStartsTheOldSystem) {
  SystemImages images(folder);
  cluster = std::make_unique<KubeCluster>("livecut", 1, 0);
  cluster->awaitSystem();
  auto& node = cluster->nodes[0];
  auto image = images.make("v9.9.1", otherPrograms());
  cluster->talos.ok(
      cluster->at(node, {"upgrade", "--image", image, "--preserve", "--live", "--wait=false"}),
      kUpgrade);
  auto stage = [&](const char* name) {
    auto result = cluster->talos.talosctl(cluster->at(node, {"get", "upgradestatus"}), 30);
    return harness::contains(result.out, name);
  };
  ASSERT_TRUE(eventually([&] { return stage(" trying "); }, 120, 0.1));
  cluster->talos.ok({"cluster", "node", "reset", node.name});
  ASSERT_TRUE(eventually([&] { return stage(" failed "); }, 120));
  EXPECT_THAT(status(node), HasSubstr("slot: A"));
  EXPECT_THAT(status(node), HasSubstr("was started and ended before it was healthy"));
  cluster->awaitSystem();

  auto boot = cluster->bootId(node);
  cluster->talos.ok(cluster->at(node, {"rollback", "--live"}), kUpgrade);
  EXPECT_EQ(cluster->bootId(node), boot);
  EXPECT_THAT(status(node), HasSubstr("slot: B"));
  cluster->talos.ok(cluster->at(node, {"reboot"}), kUpgrade);
  EXPECT_NE(cluster->bootId(node), boot);
  EXPECT_THAT(status(node), HasSubstr("slot: B"));
}

}  // namespace talos
