// The roles of nodes in a rotation, fixed when it begins, and the detection of nodes that change
// their answer later.
//
// The answer of a node about itself does not entitle it to a key. The user, the list of members and
// the node's own config must agree on its role, and a control-plane node must have shown the
// private key of the CA of the machine API (control-plane-proof.h). Each later answer is compared
// with the earlier state of the node; if the answer has changed, the run ends before anything is
// sent to the node. Pure.
#pragma once

#include "talosctl/rotate-ca/rotation-plan.h"

namespace talos::talosctl {

// The role of a node according to others; nullptr if they do not name it.
struct AssignedRole {
  kj::Maybe<bool> byFlag, byMembers;  // true: a control-plane node
  kj::StringPtr asked;                // node that listed the members; must outlive this object
};

// Throws FailedPrecondition, with the node's address, if its config contradicts the assigned role,
// or if it claims to be a control-plane node without showing the key.
void requireRole(const RotatedNode& node, const AssignedRole& assigned,
                 const ControlPlaneProof& proof);

// Throws FailedPrecondition, with the node's address, its earlier and its present state, if a node
// is neither in its earlier state nor in the state to which the phases up to this one lead.
void requireSameNode(const RotatedNode& before, const RotatedNode& now, const Rotation& rotation,
                     RotationPhase phase, const ControlPlaneProof& proof);

// Replaces the fields that a rotation changes by those of the node's present config.
void remember(RotatedNode& known, RotatedNode now);

}  // namespace talos::talosctl
