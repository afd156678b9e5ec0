// Plans changes of this node's object in Kubernetes: labels, annotations and taints. Pure.
//
// Labels, annotations and taints of the config are kept as the config has them. An entry that the
// config no longer has is removed only if this node has set it: three annotations list our keys,
// for taints with their effect ("gpu" alone in a list of an earlier release: with any effect). All
// others are left.
//
// A worker uses its kubelet's certificate, which may not change its taints (NodeRestriction of
// Kubernetes): it keeps the taints with which it joined, and an administrator changes them.
#pragma once

#include <kj/time.h>

#include "common/kube/json.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::kubed {

constexpr kj::StringPtr kOwnedLabels = "talos.dev/owned-labels"_kj;
constexpr kj::StringPtr kOwnedAnnotations = "talos.dev/owned-annotations"_kj;
constexpr kj::StringPtr kOwnedTaints = "talos.dev/owned-taints"_kj;

// Returns a merge patch, with the version from which it was computed; nullptr if the object is as
// desired. Throws FailedPrecondition while the kubelet has not labelled the object yet.
kj::Maybe<kube::Json> planNode(rpc::NodeSpecSpec::Reader wanted, const kube::Json& node);

// Returns the command with which an administrator makes the changes that this node may not make;
// empty if there are no such changes.
kj::String leftToOthers(rpc::NodeSpecSpec::Reader wanted, const kube::Json& node);

struct NodeState {
  bool ready = false, unschedulable = false;
};
// `boot`: boot time of this machine. A condition with an earlier heartbeat is from the kubelet of
// the boot before, and Kubernetes believes it for 40 s: such a node is not ready.
NodeState stateOf(const kube::Json& node, kj::Date boot = kj::UNIX_EPOCH);

}  // namespace talos::kubed
