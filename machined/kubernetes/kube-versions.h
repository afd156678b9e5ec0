// What differs between releases of Kubernetes: one table (kube-versions.inc). What it does not say
// is the same in all; nothing else in the code asks for a version number. Pure.
//
// Which are supported says common/config/kubernetes-images.h. Any other release is run as what the
// table says of it, or of the nearest supported one, with a warning that names what was assumed: a
// cluster of a release that came after us is no reason to refuse it.
#pragma once

#include "common/config/kubernetes-images.h"

namespace talos::machined {

using config::KubernetesVersion;

enum class KubeFact {
#define HAS(what, from, until) what,
#include "machined/kubernetes/kube-versions.inc"
#undef HAS
};

bool has(KubernetesVersion version, KubeFact fact);

// The release of an image, and why that is not certain.
struct AssumedVersion {
  KubernetesVersion version;
  kj::Maybe<kj::String> warning;
};
// By its tag, or else by `said` (cluster.kubernetesVersion), or else the default's.
AssumedVersion versionOf(kj::StringPtr image, kj::StringPtr said);

// The taint of control-plane nodes, which keeps workloads away.
kj::StringPtr roleTaint(KubernetesVersion version);

}  // namespace talos::machined
