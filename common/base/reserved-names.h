// Names on the Node object of this machine that the machine config may not set, because another
// program sets them. A second writer would undo each of its changes; and a label that the kubelet
// has set and that is removed comes back only when the kubelet starts.
//
// References: kubernetes.io/docs/reference/labels-annotations-taints; the labels that the kubelet
// restores when it starts (updateDefaultLabels in pkg/kubelet/kubelet_node_status.go). Labels of
// zones, regions, instance types and roles are not reserved: the kubelet sets them only if it was
// given them.
#pragma once

#include <kj/common.h>
#include <kj/string.h>

namespace talos::kube {

// Annotations in which this system keeps its own state.
constexpr kj::StringPtr kOwnedLabels = "talos.dev/owned-labels"_kj,
                        kOwnedAnnotations = "talos.dev/owned-annotations"_kj,
                        kOwnedTaints = "talos.dev/owned-taints"_kj,
                        kCordonedAnnotation = "talos.dev/cordoned"_kj;

struct ReservedName {
  kj::StringPtr name;
  kj::StringPtr owner;  // in messages, after "of"
};

constexpr ReservedName kReservedLabels[] = {
    {"kubernetes.io/hostname"_kj, "the kubelet"_kj},
    {"kubernetes.io/os"_kj, "the kubelet"_kj},
    {"kubernetes.io/arch"_kj, "the kubelet"_kj},
    // Copies of the two before.
    {"beta.kubernetes.io/os"_kj, "kube-controller-manager"_kj},
    {"beta.kubernetes.io/arch"_kj, "kube-controller-manager"_kj},
};

constexpr ReservedName kReservedAnnotations[] = {
    {kOwnedLabels, "the system"_kj},
    {kOwnedAnnotations, "the system"_kj},
    {kOwnedTaints, "the system"_kj},
    {kCordonedAnnotation, "the system"_kj},
    {"volumes.kubernetes.io/controller-managed-attach-detach"_kj, "the kubelet"_kj},
    {"csi.volume.kubernetes.io/nodeid"_kj, "the kubelet"_kj},
    {"alpha.kubernetes.io/provided-node-ip"_kj, "the kubelet"_kj},
    {"node.alpha.kubernetes.io/ttl"_kj, "kube-controller-manager"_kj},
};

// Taints that follow the conditions of the node, and its cordon.
constexpr ReservedName kReservedTaints[] = {
    {"node.kubernetes.io/not-ready"_kj, "kube-controller-manager"_kj},
    {"node.kubernetes.io/unreachable"_kj, "kube-controller-manager"_kj},
    {"node.kubernetes.io/unschedulable"_kj, "kube-controller-manager"_kj},
    {"node.kubernetes.io/memory-pressure"_kj, "kube-controller-manager"_kj},
    {"node.kubernetes.io/disk-pressure"_kj, "kube-controller-manager"_kj},
    {"node.kubernetes.io/pid-pressure"_kj, "kube-controller-manager"_kj},
    {"node.kubernetes.io/network-unavailable"_kj, "kube-controller-manager"_kj},
};

// Returns the program that sets the name; nullptr if the config may set it.
inline kj::Maybe<kj::StringPtr> reservedFor(kj::ArrayPtr<const ReservedName> reserved,
                                            kj::StringPtr name) {
  for (auto& one : reserved) {
    if (one.name == name) return one.owner;
  }
  return nullptr;
}

}  // namespace talos::kube
