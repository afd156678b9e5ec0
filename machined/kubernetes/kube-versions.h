// The differences between releases of Kubernetes: one table (kube-versions.inc). Everything else is
// the same in all releases. No other code compares version numbers, except for the facts that
// checks of the config need (common/config/kubernetes/kubernetes-images.h). Pure.
//
// common/config/kubernetes/kubernetes-images.h has the supported releases. Any other release runs
// as the table says for it, or for the nearest supported one, with a warning that names the
// assumption: a newer release is no reason to refuse a cluster.
#pragma once

#include "common/config/kubernetes/kubernetes-images.h"

namespace talos::machined {

using config::KubernetesVersion;

enum class KubeFact {
#define HAS(what, from, until) what,
#include "machined/kubernetes/kube-versions.inc"
#undef HAS
};

bool has(KubernetesVersion version, KubeFact fact);

// The release of an image, and a warning if it is not certain.
struct AssumedVersion {
  KubernetesVersion version;
  kj::Maybe<kj::String> warning;
};
// Returns the version of the image's tag, or else `said` (cluster.kubernetesVersion), or else the
// default.
AssumedVersion versionOf(kj::StringPtr image, kj::StringPtr said);

// Returns the taint of control-plane nodes, which keeps workloads away.
kj::StringPtr roleTaint(KubernetesVersion version);

}  // namespace talos::machined
