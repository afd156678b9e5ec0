// The static pods of the Kubernetes control plane, as the kubelet reads them. Pure.
//
// Differences between releases of Kubernetes are in the table (kube-versions.h). An argument of the
// config replaces the built-in one of its name; the others follow, sorted. Admission plugins that
// the config configures are enabled, also beside those that its arguments enable. The two
// annotations name the versions of the pod's config and secrets: the kubelet restarts a pod when
// any byte of it changes, so equal input gives equal bytes.
#pragma once

#include "machined/kubernetes/kube-versions.h"
#include "machined/kubernetes/secret-files.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {

// Folders of static pods: the one in which users may put their own, and that of
// machine.kubelet.disableManifestsDirectory.
constexpr kj::StringPtr kManifestsFolder = "/etc/kubernetes/manifests"_kj,
                        kSystemManifestsFolder = "/etc/kubernetes/system-manifests"_kj;

struct PodContext {
  KubernetesVersion version;  // of the component's image
  bool podSecurityPolicy;     // its admission is wanted, if the release has it
  uint64_t configVersion;     // of its config resource
  kj::StringPtr secretsVersion;
};

// Returns YAML with four spaces a level, as `get` prints the text around it.
kj::String staticPod(rpc::ControlPlaneConfigSpec::ApiServer::Reader spec,
                     const PodContext& context);
kj::String staticPod(rpc::ControlPlaneConfigSpec::ControllerManager::Reader spec,
                     const PodContext& context);
kj::String staticPod(rpc::ControlPlaneConfigSpec::Scheduler::Reader spec,
                     const PodContext& context);

}  // namespace talos::machined
