// Releases of Kubernetes by number, and the default images of its parts. Pure.
//
// The tag of an image is its release; for an image that is named by a digest only, the config has
// cluster.kubernetesVersion. The differences between releases are in
// machined/kubernetes/kube-versions.h.
#pragma once

#include <kj/string.h>

#include <compare>

namespace talos::config {

struct KubernetesVersion {
  unsigned major = 0, minor = 0, patch = 0;

  auto operator<=>(const KubernetesVersion&) const = default;
  kj::String toString() const { return kj::str(major, ".", minor, ".", patch); }
};

// Parses v1.34.4, 1.34, v1.20.6-rc.0: the v and the patch may be missing, a suffix is ignored.
// Returns nullptr for anything else.
kj::Maybe<KubernetesVersion> parseKubernetesVersion(kj::StringPtr text);

// Returns the release of registry:port/name:v1.34.4, with or without a digest after the tag;
// nullptr without such a tag.
kj::Maybe<KubernetesVersion> kubernetesVersionOf(kj::StringPtr image);

// Newest release that the tests run for real.
constexpr KubernetesVersion kDefaultKubernetes = {1, 34, 4};
constexpr kj::StringPtr kDefaultKubernetesText = "1.34.4"_kj;  // the same, in the form of a flag

// Returns true for releases that nodes of this version run without a warning: 1.19 and 1.20, which
// the users' documents are about, and the current ones.
bool isSupportedKubernetes(KubernetesVersion version);
// Return the first release of the oldest supported minor, and of the newest.
KubernetesVersion oldestKubernetes();
KubernetesVersion newestKubernetes();
kj::String supportedKubernetesText();  // "1.19 to 1.20, 1.30 to 1.35"

// Returns true if pods and Services of both families need no feature gate.
bool hasDualStack(KubernetesVersion version);
// Return true if the kubelet ends pods before the node shuts down, without a feature gate; and if
// it does so in an order by priority.
bool delaysShutdown(KubernetesVersion version);
bool hasShutdownPriorities(KubernetesVersion version);
// Returns true if the kubelet can give pods the default profile of seccomp, without a feature gate.
bool hasSeccompDefault(KubernetesVersion version);
// Returns true if the kubelet asks programs for the credentials of registries, without a feature
// gate.
bool hasCredentialProviders(KubernetesVersion version);
// Returns true if the API server limits a network of Services to 20 bits of addresses.
bool limitsServiceSubnets(KubernetesVersion version);
// Returns true if the API server reads its authorizers from a file, without a feature gate.
bool hasAuthorizationFile(KubernetesVersion version);

enum class KubernetesPart { kApiServer, kControllerManager, kScheduler, kProxy, kKubelet };
kj::StringPtr nameOf(KubernetesPart part);  // kube-apiserver
// Returns the repository of the part in this release: ghcr.io/siderolabs/kubelet.
kj::String kubernetesRepository(KubernetesPart part, KubernetesVersion version);
kj::String kubernetesImage(KubernetesPart part, KubernetesVersion version = kDefaultKubernetes);

// Images of a cluster that do not depend on its version of Kubernetes.
constexpr kj::StringPtr kCoreDnsImage = "docker.io/coredns/coredns:1.12.1"_kj;
constexpr kj::StringPtr kOldCoreDnsImage = "docker.io/coredns/coredns:1.8.0"_kj;
constexpr kj::StringPtr kFlannelImage = "ghcr.io/flannel-io/flannel:v0.28.4"_kj;
constexpr kj::StringPtr kInstallCniImage = "ghcr.io/siderolabs/install-cni:v1.9.0"_kj;
constexpr kj::StringPtr kPauseImage = "registry.k8s.io/pause:3.10"_kj;  // the sandbox of a pod

}  // namespace talos::config
