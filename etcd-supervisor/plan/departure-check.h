// What becomes of the cluster when one of its nodes goes because somebody wants it to, and whether
// it may (spec kubernetes.md §6, the guard of upgrades). Pure.
//
// It is stricter than a removal (etcd-quorum.h): a cluster that is ill already is mended first, for
// a second failure while the node is away, or before it is replaced, would be one too many.
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
kj::Maybe<kj::String> objectionTo(Going going, kj::ArrayPtr<const Voice> members,
                                  etcd::MemberId own, bool quorum);

}  // namespace talos::supervisor
