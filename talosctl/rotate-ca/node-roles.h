// The roles of nodes in a rotation, fixed when it begins, and nodes that change their answer later.
//
// The answer of a node about itself is no reason to give it a key. Its role is what the user, the
// list of members and its own config say alike; and a control-plane node has shown the private key
// of the CA of the machine API (control-plane-proof.h). Each later answer is compared with what the
// node had before, so one that changes it ends the run, before anything is sent to it. Pure.
#pragma once

#include "talosctl/rotate-ca/rotation-plan.h"

namespace talos::talosctl {

// The role of a node as others say it; nullptr: they say nothing.
struct AssignedRole {
  kj::Maybe<bool> byFlag, byMembers;  // true: of the control plane
  kj::StringPtr asked;                // for the members; outlives this
};

// Throws FailedPrecondition, with the node's address, when its config says something else, or says
// that it is a control-plane node and does not show the key.
void requireRole(const RotatedNode& node, const AssignedRole& assigned,
                 const ControlPlaneProof& proof);

// Throws FailedPrecondition, with the node's address, what it was before and what it is now, when a
// node is neither what it was nor what the phases up to this one make of it.
void requireSameNode(const RotatedNode& before, const RotatedNode& now, const Rotation& rotation,
                     RotationPhase phase, const ControlPlaneProof& proof);

// Replaces what a rotation changes by what the node's config has now.
void remember(RotatedNode& known, RotatedNode now);

}  // namespace talos::talosctl
