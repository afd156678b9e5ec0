// Decides if a node may leave its cluster, or be away from it, on request: the guard of resets,
// upgrades and reboots. Pure.
//
// It is stricter than a removal (etcd-quorum.h): a cluster that is not healthy must be repaired
// first, because a second failure while the node is away, or before it is replaced, would be one
// too many.
#pragma once

#include "etcd-supervisor/plan/etcd-quorum.h"

namespace talos::supervisor {

enum class Going {
  kLeaves,    // permanently, for a reset
  kRejoins,   // its data is removed and it joins again later: an upgrade without --preserve
  kRestarts,  // it keeps its data and is away for a while: an upgrade with --preserve
};

// Returns why the node with the member `own` should not go: the voters, how many may fail now and
// without it, and the remedy; nullptr if it may go. A node that is not a voter may always go.
// `quorum`: whether the cluster has a quorum now, which its members know better than their number
// shows.
kj::Maybe<kj::String> objectionTo(Going going, kj::ArrayPtr<const MemberProbe> members,
                                  etcd::MemberId own, bool quorum);

}  // namespace talos::supervisor
