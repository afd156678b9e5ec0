// Plans changes of this node's object in Kubernetes: labels, annotations and taints. Pure.
//
// Labels, annotations and taints of the config are kept as the config has them, if this node has
// set them: three annotations list our keys, for taints with their effect ("gpu" alone in a list of
// an earlier release: with any effect). An entry that another client has set to another value
// stays, and is reported. An entry that the config does not name is removed only if a list names
// it. Reserved names (common/base/reserved-names.h) are neither changed nor removed, even if a list
// of an earlier release names them.
//
// The kubelet sets taints, and a worker's kubelet labels, when it registers the node. So these are
// ours, too, if they have the value of the config; and the roles of a control plane always are.
//
// A worker uses its kubelet's certificate, which may not change its taints, nor labels that no
// kubelet may set (NodeRestriction of Kubernetes): it keeps the taints with which it joined, and an
// administrator changes both.
#pragma once

#include <kj/time.h>
#include <kj/vector.h>

#include "common/kube/json.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::kubed {

struct NodePlan {
  // Merge patch, with the version from which it was computed; nullptr if there is nothing to
  // change.
  kj::Maybe<kube::Json> patch;
  // Settings of the config that another client has set to another value, each with its key and the
  // command with which this node can set it; on a worker also labels that it may not change, with
  // the command of an administrator.
  kj::Vector<kj::String> notApplied;
};
NodePlan planNode(rpc::NodeSpecSpec::Reader wanted, const kube::Json& node);

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
