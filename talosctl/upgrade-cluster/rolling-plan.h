// The order in which the nodes of a cluster are upgraded. Pure.
//
// The control plane first, one node at a time: those whose upgrade is under way, then those that
// neither hold a shared address nor lead etcd, then a holder, then the leader. This is decided anew
// before each of them, because both move while others restart: the leader's turn comes last, and
// by then it can hand over to a node that runs the new system. Then the workers, some at a time.
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
  kj::Vector<PlannedNode> nodes;  // in their order, as it is now; those without an action last
  size_t changes() const;         // nodes that have an action
};

// All nodes have answered, and the target is known.
RollingPlan planRolling(const ClusterSurvey& survey, const TargetImage& target);

// The next of the control plane. None: all of them run the target.
kj::Maybe<kj::StringPtr> nextControlPlaneNode(const ClusterSurvey& survey,
                                              const TargetImage& target);

}  // namespace talos::talosctl
