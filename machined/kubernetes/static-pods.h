// The static pods of the Kubernetes control plane, as the kubelet reads them. Pure.
//
// Differences between releases of Kubernetes are in the table (kube-versions.h). An argument
// of the config takes the place of the built-in one of its name; the others follow, sorted. The two
// annotations say which config and which secrets a pod is of: the kubelet starts a pod anew when
// any byte of it changes, so equal input gives equal bytes.
#pragma once

#include "machined/kubernetes/kube-versions.h"
#include "machined/kubernetes/secret-files.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {

struct PodContext {
  KubernetesVersion version;  // of the component's image
  bool podSecurityPolicy;     // its admission is wanted, where the release has it
  uint64_t configVersion;     // of its config resource
  kj::StringPtr secretsVersion;
};

// YAML with four spaces a level, as `get` writes what is around it.
kj::String staticPod(rpc::ControlPlaneConfigSpec::ApiServer::Reader spec,
                     const PodContext& context);
kj::String staticPod(rpc::ControlPlaneConfigSpec::ControllerManager::Reader spec,
                     const PodContext& context);
kj::String staticPod(rpc::ControlPlaneConfigSpec::Scheduler::Reader spec,
                     const PodContext& context);

}  // namespace talos::machined
