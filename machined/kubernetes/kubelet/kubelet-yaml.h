// kubelet.yaml: the configuration of the kubelet, made from the node's own settings and
// machine.kubelet.extraConfig.
//
// A field of the config replaces the node's own; of evictionHard, the only mapping that both may
// have, each key does. The node's own fields that other parts depend on
// (common/config/kubernetes/kubelet-configuration.h) stay, and so do its periods if those of the
// config are wrong: a config that was kept from an earlier release may have either. Pure, with the
// same bytes for the same input: a difference restarts the kubelet.
#pragma once

#include "common/config/kubernetes/kubelet-configuration.h"

namespace talos::machined {

constexpr kj::StringPtr kRuntimeEndpoint = "unix:///run/containerd/containerd.sock"_kj;

struct KubeletYaml {
  config::KubernetesVersion version;
  bool six = false;         // the node has an IPv6 address
  bool sharesDisk = false;  // as in KubeletNodeContext
  bool staticPods = false;  // of a control plane
  kj::StringPtr staticPodPath, clientCa;
};

kj::String kubeletYaml(config::Config::Reader config, const KubeletYaml& node);

}  // namespace talos::machined
