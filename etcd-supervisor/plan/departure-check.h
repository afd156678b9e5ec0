// Decides if a node may leave its cluster, or be away from it, because somebody asks for it: the
// guard of resets, upgrades and reboots. Pure.
//
// It is stricter than a removal (etcd-quorum.h): a cluster that is not healthy has to be repaired
// first, for a second failure while the node is away, or before it is replaced, would be one too
// many.
#pragma once

#include "etcd-supervisor/plan/etcd-quorum.h"

namespace talos::supervisor {

enum class Going {
  kLeaves,    // for good: a reset
  kRejoins,   // its data goes, it joins anew when it is back: an upgrade without --preserve
  kRestarts,  // it keeps its data and is away for a while: an upgrade with --preserve
};

// Why the node with the member `own` should not go: who votes, how many may fail now and without
// it, and what to do. None: it may. A node that is no voter may always. `quorum`: whether the
// cluster has one now, which its members know better than their number.
kj::Maybe<kj::String> objectionTo(Going going, kj::ArrayPtr<const MemberProbe> members,
                                  etcd::MemberId own, bool quorum);

}  // namespace talos::supervisor
