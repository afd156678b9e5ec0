// What is to change of this node's object in Kubernetes: labels and taints. Pure.
//
// Those that the config wants are kept as it has them; of those that it does not want any more only
// ours are removed: their keys are remembered in two annotations. Everybody else's are left.
//
// A worker acts with its kubelet's certificate, which may not change its taints (NodeRestriction of
// Kubernetes): it has those with which it has joined, and others are for an administrator.
#pragma once

#include "common/kube/json.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::kubed {

constexpr kj::StringPtr kOwnedLabels = "talos.dev/owned-labels"_kj;
constexpr kj::StringPtr kOwnedTaints = "talos.dev/owned-taints"_kj;

// A merge patch, with the version that it was computed from; none: the object is as it is wanted.
// FailedPrecondition while the kubelet has not labelled it yet.
kj::Maybe<kube::Json> planNode(rpc::NodeSpecSpec::Reader wanted, const kube::Json& node);

// How an administrator makes what this node may not: empty when there is nothing.
kj::String leftToOthers(rpc::NodeSpecSpec::Reader wanted, const kube::Json& node);

struct NodeState {
  bool ready = false, unschedulable = false;
};
NodeState stateOf(const kube::Json& node);

}  // namespace talos::kubed
