// Servers in pods that say on which node they run, and a Service for all of them.
#pragma once

#include "tests/kubernetes/kube-cluster.h"

namespace talos {

// A DaemonSet and a Service "web" of namespace default, of both families where there are two, for
// KubeCluster::apply().
extern const char* const kWebServers;

struct WebPod {
  std::string name, node;
  std::vector<std::string> addresses;  // of each family that pods have
};
std::vector<WebPod> webPods(const KubeCluster& cluster);

// Fails the test when one of them does not get an answer from each other one, by each of its
// addresses, by the Service's, and by the Service's name.
void checkPodNetwork(const KubeCluster& cluster);

}  // namespace talos
