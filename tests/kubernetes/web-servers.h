// Servers in pods that say on which node they run, and a Service for all of them.
#pragma once

#include "tests/kubernetes/kube-cluster.h"

namespace talos {

// A DaemonSet and a Service "web" of namespace default, with both address families if the cluster
// has two, for KubeCluster::apply().
extern const char* const kWebServers;

struct WebPod {
  std::string name, node;
  std::vector<std::string> addresses;  // one for each family of the pods
};
std::vector<WebPod> webPods(const KubeCluster& cluster);

// Fails the test if one of the servers does not get an answer from each other, by each of its
// addresses, by the Service's, and by the Service's name.
void checkPodNetwork(const KubeCluster& cluster);

}  // namespace talos
