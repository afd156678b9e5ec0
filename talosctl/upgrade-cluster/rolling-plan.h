// The order in which the nodes of a cluster are upgraded. Pure.
//
// The control plane is upgraded first, one node at a time: nodes whose upgrade is under way, then
// nodes that neither hold a shared address nor lead etcd, then a holder, then the leader. The next
// node is chosen again before each upgrade, because address and leadership move while nodes
// restart. The leader comes last, when it can hand over to a node with the new system. The workers
// follow, some at a time.
#pragma once

#include "talosctl/upgrade-cluster/cluster-survey.h"

namespace talos::talosctl {

struct PlannedNode {
  kj::String address;
  bool controlPlane;
  NodeAction action;
  kj::String from;  // version that runs
};

struct RollingPlan {
  kj::Vector<PlannedNode> nodes;  // in the present order; nodes without an action last
  size_t changes() const;         // number of nodes with an action
};

// Plans the upgrade. All nodes must have answered, and the target must be known.
RollingPlan planRolling(const ClusterSurvey& survey, const TargetImage& target);

// Returns the next control-plane node. nullptr if all of them run the target.
kj::Maybe<kj::StringPtr> nextControlPlaneNode(const ClusterSurvey& survey,
                                              const TargetImage& target);

}  // namespace talos::talosctl
