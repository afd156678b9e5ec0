// The programs that give the kubelet the credentials of registries, those of
// machine.kubelet.credentialProviderConfig: what the kubelet reads about them.
//
// The kubelet does not start if a program is missing. So a config that names one is refused, a
// start of the kubelet waits with the reason (machined/system/credential-programs.h), and the
// folder is mounted in the kubelet's container only with programs: a system without any need not
// have it.
//
// Reference: Kubernetes' documentation, "Configure a kubelet image credential provider".
// Pure.
#pragma once

#include <kj/vector.h>

#include "machined/kubernetes/kube-versions.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kCredentialProviderConfig =
    "/etc/kubernetes/kubelet-credentialproviderconfig.yaml"_kj;

// Returns the names of the programs; none for a release whose kubelet asks none.
kj::Vector<kj::String> credentialProviders(config::Kubelet::Reader kubelet,
                                           KubernetesVersion version);
// Returns the CredentialProviderConfig for the kubelet, with the versions that the release has
// where the config names none; empty without programs.
kj::String credentialProviderYaml(config::Kubelet::Reader kubelet, KubernetesVersion version);

}  // namespace talos::machined
