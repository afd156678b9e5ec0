// Labels and taints for the roles of a node.
#pragma once

#include <kj/string.h>

namespace talos::kube {

constexpr kj::StringPtr kControlPlaneRole = "node-role.kubernetes.io/control-plane"_kj,
                        kMasterRole = "node-role.kubernetes.io/master"_kj;  // until 1.24
constexpr kj::StringPtr kControlPlaneRoles[] = {kControlPlaneRole, kMasterRole};

// Returns true for a label that a kubelet may give its own node: any label except Kubernetes' own,
// and a few of these. With others the kubelet does not start, and admission (NodeRestriction)
// refuses them.
bool kubeletMayLabel(kj::StringPtr label);

// Part of NodeStatus.message, after the name of the node, by which machined recognises that the
// Node object does not exist.
constexpr kj::StringPtr kNoNodeObject = " not found: the kubelet has not registered it"_kj;

}  // namespace talos::kube
