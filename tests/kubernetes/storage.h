// Volumes of pods on network servers. Workers are virtual machines, because the client is the
// node's kernel, and the kubelet's image, which mounts them. Volumes of a CSI driver need nothing
// of the kernel: their nodes are containers. Pods are on the node's network, so there is no network
// of pods to wait for.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {

class Storage : public KubeHost {
 protected:
  // Timeouts in seconds, emulated on a busy machine.
  static constexpr double kRuns = 600, kGone = 120;

  std::unique_ptr<KubeCluster> cluster;
  double slowness = 1;  // factor of all timeouts: an emulated control plane takes longer

  void TearDown() override {
    cluster = nullptr;
    KubeHost::TearDown();
  }
  // Creates a control plane and these workers. With --with-bootloader they have /var on their disk,
  // as an installed node has it, and in memory without.
  void create(unsigned workers, std::vector<std::string> flags = {}) {
    flags.push_back("--virtual-machines=" + std::to_string(workers));
    createContainers(workers, std::move(flags));
  }
  void createContainers(unsigned workers, std::vector<std::string> flags = {}) {
    constexpr const char* kNoPodNetwork =
        R"([{"op": "add", "path": "/cluster/network/cni", "value": {"name": "none"}},
            {"op": "add", "path": "/cluster/proxy", "value": {"disabled": true}}])";
    flags.insert(flags.end(), {"--config-patch", kNoPodNetwork});
    cluster = std::make_unique<KubeCluster>("storage", 1, workers, flags, slowness);
    for (auto& node : cluster->nodes) {
      EXPECT_TRUE(harness::eventually(
          [&] { return cluster->kubectl({"get", "node", node.name}).status == 0; },
          kRuns * slowness, 1))
          << node.name << cluster->overview();
    }
    EXPECT_TRUE(harness::eventually(
        [&] { return cluster->kubectl({"get", "serviceaccount", "default"}).status == 0; },
        kRuns * slowness, 1))
        << "no pod can be made: " << cluster->overview();
  }
  KubeNode& worker(size_t i) { return cluster->nodes[i]; }  // counted from 1

  // Returns a pod whose one container has the volume at /data and runs the command as user 1000.
  static std::string pod(const std::string& name, const KubeNode& node, const std::string& command,
                         const std::string& volume) {
    return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name +
           "}\nspec:\n  nodeName: " + node.name +
           "\n  hostNetwork: true\n  terminationGracePeriodSeconds: 0\n"
           "  tolerations: [{operator: Exists}]\n"
           "  securityContext: {runAsUser: 1000, fsGroup: 1000}\n"
           "  containers:\n  - name: main\n    image: busybox:1.37\n    command: [sh, -c, '" +
           command +
           "']\n    volumeMounts: [{name: data, mountPath: /data}]\n"
           "  volumes: [{name: data, " +
           volume + "}]\n";
  }
  std::string mounts(const KubeNode& node) {
    return cluster->talos.talosctl(cluster->at(node, {"read", "/proc/mounts"})).out;
  }
  std::string logOf(const std::string& pod) { return cluster->kubectl({"logs", pod}).out; }
  bool logHas(const std::string& pod, const std::string& text) {
    return harness::eventually([&] { return harness::contains(logOf(pod), text); },
                               kRuns * slowness, 1);
  }
  // Returns all reasons of the kubelet for not mounting volumes, each whole.
  std::string mountFailures() {
    return cluster
        ->kubectl({"get", "events", "--field-selector", "reason=FailedMount", "-o",
                   "jsonpath={range .items[*]}{.involvedObject.name}: {.message}{\"\\n\"}{end}"})
        .out;
  }
  // Waits until the kubelet gives this text as a reason for not mounting a volume of the pod.
  bool mountFailsWith(const std::string& pod, const std::string& text, std::string& events) {
    auto refused = [&] {
      events = cluster
                   ->kubectl({"get", "events", "--field-selector",
                              "involvedObject.name=" + pod + ",reason=FailedMount", "-o", "json"})
                   .out;
      return harness::contains(events, text);
    };
    return harness::eventually(refused, kRuns * slowness, 1);
  }
};

}  // namespace talos
