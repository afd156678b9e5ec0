// Labels and taints that say what a node is for.
#pragma once

#include <kj/string.h>

namespace talos::kube {

constexpr kj::StringPtr kControlPlaneRole = "node-role.kubernetes.io/control-plane"_kj,
                        kMasterRole = "node-role.kubernetes.io/master"_kj;  // until 1.24
constexpr kj::StringPtr kControlPlaneRoles[] = {kControlPlaneRole, kMasterRole};

// True for a label that a kubelet may give its own node: any but Kubernetes' own, and a few of
// those. With others it does not start, and admission (NodeRestriction) refuses them.
bool kubeletMayLabel(kj::StringPtr label);

}  // namespace talos::kube
