// For tests: a cluster of two control-plane nodes and a worker between them, with one release.
#pragma once

#include "talosctl/upgrade-k8s/upgrade-plan.h"

namespace talos::talosctl {

inline ClusterState modelCluster(kj::StringPtr release) {
  ClusterState state;
  for (unsigned i = 0; i < 3; ++i) {
    NodeState node;
    node.name = kj::str("n", i + 1);
    node.address = kj::str("10.5.0.", i + 2);
    node.controlPlane = i != 1;
    auto of = [&](kj::StringPtr name) { return kj::str("registry.k8s.io/", name, ":v", release); };
    if (node.controlPlane) {
      node.apiServer = of("kube-apiserver");
      node.controllerManager = of("kube-controller-manager");
      node.scheduler = of("kube-scheduler");
      node.proxy = of("kube-proxy");
    }
    node.kubelet = kj::str("ghcr.io/siderolabs/kubelet:v", release);
    node.kubeletVersion = kj::str("v", release);
    state.nodes.add(kj::mv(node));
  }
  state.proxyImage = kj::str("registry.k8s.io/kube-proxy:v", release);
  return state;
}

}  // namespace talos::talosctl
