// A node that reboots or is erased, with real pods on it: before a reboot the kubelet ends them, by
// the lock that login1 gives it, and in the order of machine.kubelet.extraConfig; the pods of a
// Deployment move to another node before the node is erased.
#include <gmock/gmock.h>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

constexpr double kNodeUp = 420, kPodsUp = 240, kGone = 120;
constexpr const char* kWorker = "10.5.0.3";

// A pod whose exit status says how it has ended.
constexpr const char* kEnds = R"(apiVersion: v1
kind: Pod
metadata: {name: ends}
spec:
  nodeName: goes-worker-1
  containers:
  - {name: main, image: "busybox:1.37", command: [sh, -c, "trap 'exit 7' TERM; while :; do sleep 0.1; done"]}
)";

// A pod of a low priority that takes longer to end than a node waits without a config, and a pod of
// a higher priority that would end first if both were told to end at once.
constexpr const char* kRanked = R"(apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: low}
spec:
  nodeName: goes-worker-1
  terminationGracePeriodSeconds: 90
  containers:
  - {name: main, image: "busybox:1.37", command: [sh, -c, "trap 'sleep 50; exit 7' TERM; while :; do sleep 0.1; done"]}
---
apiVersion: v1
kind: Pod
metadata: {name: high}
spec:
  nodeName: goes-worker-1
  priorityClassName: high
  containers:
  - {name: main, image: "busybox:1.37", command: [sh, -c, "trap 'exit 7' TERM; while :; do sleep 0.1; done"]}
)";

std::string bootId(const KubeCluster& cluster) {
  return cluster.talos
      .talosctl({"-n", kWorker, "--timeout", "5s", "read", "/proc/sys/kernel/random/boot_id"}, 20)
      .out;
}
void awaitReboot(const KubeCluster& cluster, const std::string& before) {
  EXPECT_TRUE(eventually(
      [&] {
        auto now = bootId(cluster);
        return now != "" && now != before;
      },
      kNodeUp, 0.5));
  cluster.awaitReady(2, kNodeUp);
}

size_t restoredLocks(const std::string& log) {
  size_t count = 0;
  for (size_t at = 0; (at = log.find("restored a lock", at)) != std::string::npos; ++at) ++count;
  return count;
}

struct NodeThatGoes : public KubeHost {
  ~NodeThatGoes() noexcept override {}
};

// Catches: a kubelet that gets no inhibitor lock; a node that shuts down without the lock, so that
// its pods are started again and their status does not say why they ended.
void endsItsPods(const KubeCluster& cluster) {
  auto locks = [&] { return cluster.talos.talosctl({"-n", kWorker, "get", "inhibitors"}).out; };
  EXPECT_TRUE(eventually([&] { return contains(locks(), "kubelet"); }, kGone, 0.5))
      << locks() << cluster.talos.talosctl({"-n", kWorker, "logs", "login1"}).out
      << cluster.talos.talosctl({"-n", kWorker, "logs", "dbus-daemon"}).out
      << cluster.talos.talosctl({"-n", kWorker, "service"}).out
      << cluster.talos.talosctl({"-n", kWorker, "logs", "kubelet"}).out;
  cluster.apply(kEnds);
  EXPECT_TRUE(eventually(
      [&] {
        return cluster.ok({"get", "pod", "ends", "-o", "jsonpath={.status.phase}"}) == "Running";
      },
      kPodsUp, 0.5));
  if (testing::Test::HasFailure()) return;
  // login1 alone, by its supervisor and by a crash: the kubelet notices neither.
  const std::vector<std::string> ends[] = {{"restart"}, {"kill", "--signal", "SIGKILL"}};
  for (size_t i = 0; i < std::size(ends); ++i) {
    std::vector<std::string> call = {"-n", kWorker, "service", "login1"};
    call.insert(call.end(), ends[i].begin(), ends[i].end());
    cluster.talos.ok(call);
    EXPECT_TRUE(eventually(
        [&] {
          auto log = cluster.talos.talosctl({"-n", kWorker, "logs", "login1"}).out;
          return restoredLocks(log) == i + 1;
        },
        kGone, 0.5));
    EXPECT_TRUE(contains(locks(), "kubelet")) << locks();
  }
  auto before = bootId(cluster);
  cluster.talos.ok({"-n", kWorker, "reboot"});
  awaitReboot(cluster, before);
  EXPECT_EQ(cluster.ok({"get", "pod", "ends", "-o",
                        "jsonpath={.status.phase} {.status.reason} "
                        "{.status.containerStatuses[0].state.terminated.exitCode}"}),
            "Failed Terminated 7");
  EXPECT_TRUE(eventually([&] { return contains(locks(), "kubelet"); }, kGone, 0.5))
      << "after the reboot";
}

// Catches: a kubelet that does not get the periods of the config, or exits because of them; one
// that ends all pods at once; a node that does not wait as long as these periods are together.
void endsThemByPriority(const KubeCluster& cluster) {
  cluster.talos.ok({"-n", kWorker, "patch", "mc", "--mode=no-reboot", "-p",
                    R"([{"op": "add", "path": "/machine/kubelet/extraConfig", "value":
                        {"shutdownGracePeriodByPodPriority": [
                          {"priority": 0, "shutdownGracePeriodSeconds": 70},
                          {"priority": 1000, "shutdownGracePeriodSeconds": 20}]}}])"});
  auto running = [&] {
    return cluster.kubectl({"get", "--raw", "/api/v1/nodes/goes-worker-1/proxy/configz"}).out;
  };
  EXPECT_TRUE(eventually(
      [&] { return contains(running(), R"({"priority":1000,"shutdownGracePeriodSeconds":20})"); },
      kGone, 0.5))
      << running() << cluster.talos.talosctl({"-n", kWorker, "logs", "kubelet"}).out;
  // Wait for the lock before the node takes pods again.
  EXPECT_TRUE(eventually(
      [&] {
        return contains(cluster.talos.talosctl({"-n", kWorker, "get", "inhibitors"}).out,
                        "kubelet");
      },
      kGone, 0.5));
  cluster.apply(kRanked);
  auto of = [&](const std::string& pod, const std::string& path) {
    return cluster.ok({"get", "pod", pod, "-o", "jsonpath=" + path});
  };
  for (auto pod : {"low", "high"}) {
    EXPECT_TRUE(eventually([&] { return of(pod, "{.status.phase}") == "Running"; }, kPodsUp, 0.5));
  }
  if (testing::Test::HasFailure()) return;
  auto before = bootId(cluster);
  cluster.talos.ok({"-n", kWorker, "reboot"}, kNodeUp);
  awaitReboot(cluster, before);
  const std::string ended =
      "{.status.reason} {.status.containerStatuses[0].state.terminated.exitCode}";
  const std::string finished = "{.status.containerStatuses[0].state.terminated.finishedAt}";
  EXPECT_EQ(of("low", ended), "Terminated 7") << "it had its 50 s";
  EXPECT_EQ(of("high", ended), "Terminated 7");
  EXPECT_LE(of("low", finished), of("high", finished));
}

// Catches: a node that is erased under its pods; a violated PodDisruptionBudget; a node that stays
// cordoned forever.
void isDrainedAndComesBack(const KubeCluster& cluster) {
  cluster.apply(guardedByABudget("guarded", "goes-worker-1"));
  cluster.awaitPods("default", "app=guarded", 1, kPodsUp);
  ASSERT_EQ(cluster.placesOf("app=guarded"), "goes-worker-1 ");
  auto before = bootId(cluster);
  harness::Background reset(cluster.talos.command(
      {"-n", kWorker, "reset", "--yes", "--reboot", "--system-labels-to-wipe", "EPHEMERAL"}));
  auto progress = [&] {
    return cluster.talos.talosctl({"-n", kWorker, "get", "nodedrainstatus"}).out;
  };
  EXPECT_TRUE(eventually([&] { return contains(progress(), "disruption budget"); }, 60, 0.5))
      << progress();
  EXPECT_EQ(cluster.placesOf("app=guarded"), "goes-worker-1 ") << "the budget keeps it";
  EXPECT_EQ(cluster.ok({"get", "node", "goes-worker-1", "-o", "jsonpath={.spec.unschedulable}"}),
            "true");
  cluster.ok({"delete", "pdb", "guarded"});
  EXPECT_TRUE(eventually([&] { return contains(cluster.placesOf("app=guarded"), "goes-master-1"); },
                         kGone, 0.5));
  awaitReboot(cluster, before);
  EXPECT_TRUE(eventually(
      [&] {
        return cluster.ok({"get", "node", "goes-worker-1", "-o",
                           "jsonpath={.spec.unschedulable}{.metadata.annotations}"})
                       .find("cordoned") == std::string::npos &&
               cluster.ok(
                   {"get", "node", "goes-worker-1", "-o", "jsonpath={.spec.unschedulable}"}) == "";
      },
      kGone, 1))
      << progress();
}

TEST_F(NodeThatGoes, AWorker) {
  KubeCluster cluster("goes", 1, 1);
  cluster.awaitReady(2, kNodeUp);
  cluster.awaitPods("kube-system", "k8s-app=flannel", 2, kPodsUp);
  if (HasFailure()) return;
  endsItsPods(cluster);
  if (HasFailure()) return;
  endsThemByPriority(cluster);
  if (HasFailure()) return;
  isDrainedAndComesBack(cluster);
}

}  // namespace
}  // namespace talos
