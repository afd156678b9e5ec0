// Labels and taints that say what a node is for.
#pragma once

#include <kj/string.h>

namespace talos::kube {

constexpr kj::StringPtr kControlPlaneRole = "node-role.kubernetes.io/control-plane"_kj,
                        kMasterRole = "node-role.kubernetes.io/master"_kj;  // until 1.24
constexpr kj::StringPtr kControlPlaneRoles[] = {kControlPlaneRole, kMasterRole};

}  // namespace talos::kube
