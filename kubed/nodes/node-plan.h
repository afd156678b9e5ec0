// Plans changes of this node's object in Kubernetes: labels, annotations and taints. Pure.
//
// Those of the config are kept as it has them; when the config no longer has one, it is removed
// only if it was ours: three annotations remember our keys, of taints with their effect ("gpu"
// alone in a list of an earlier release: with any). All others are left.
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

// A merge patch, with the version that it was computed from; none: the object is as wanted.
// FailedPrecondition while the kubelet has not labelled it yet.
kj::Maybe<kube::Json> planNode(rpc::NodeSpecSpec::Reader wanted, const kube::Json& node);

// The command with which an administrator makes the changes that this node may not; empty: none.
kj::String leftToOthers(rpc::NodeSpecSpec::Reader wanted, const kube::Json& node);

struct NodeState {
  bool ready = false, unschedulable = false;
};
// `boot`: of this machine. A condition whose heartbeat is from before that is the kubelet's of the
// boot before, which Kubernetes believes for 40 s: such a node is not ready.
NodeState stateOf(const kube::Json& node, kj::Date boot = kj::UNIX_EPOCH);

}  // namespace talos::kubed
