// Decides which node makes the cluster when operators request it from several nodes at once. Pure.
//
// A node that is to make the cluster first claims it: from then on it reports the claim to every
// node that queries it, and only then it queries every other node. It makes the cluster only if,
// during this claim, every other node has answered that it has no cluster and no claim.
//
// Why there are never two clusters: let A and B both make one. Each has claimed, then queried the
// other, then made its cluster; and from its claim on each has answered `claims`, then `makes`,
// then `member`, never `none`. A got `none` from B, so A queried before B claimed, thus A claimed
// before B claimed. In the same way B claimed before A claimed, which is a contradiction. A crash
// ends a claim, because the claim is stored nowhere: a node that has claimed and crashed makes
// nothing by this claim. `makes` is on disk before etcd is started, so a node that restarts in the
// middle answers `makes` before anything else, and is the only one that may continue.
//
// It is enough that one of the two knows the other. Let only A know B: a node that is queried for a
// claim has the querying node on disk before it answers `none`, and queries it from then on. So if
// A got `none` from B before B claimed, B queries A during its claim, and does not get `none`;
// otherwise A gets B's claim.
//
// A node knows the nodes that its config names, that the operator's client names (`among`), and
// that have queried it. Other nodes are not queried, and neither is a node that the operator
// excepts (`without`): the operator thereby states that this node has no cluster.
//
// Why one of them succeeds: of two that claim, the one whose name sorts first keeps its claim and
// queries until the other has withdrawn; the other withdraws as soon as it learns of the first.
#pragma once

#include "common/base/error.h"
#include "etcd-supervisor/plan/membership-types.h"

namespace talos::supervisor {

struct Claim {
  kj::StringPtr name;  // name of this node
  int64_t since;       // distinguishes this claim from one of a node with the same name
};

struct Verdict {
  enum class What { kMake, kAsk, kWithdraw };
  What what = What::kMake;
  ErrorKind kind = ErrorKind::kInternal;  // for kWithdraw
  kj::String message;                     // why not yet, or not at all
  kj::String whose;                       // for kWithdraw: address of the node that has the
                                          // cluster, or will have it
};

// `asked` has the answers of one round, all requested after the claim.
Verdict judge(const Claim& claim, kj::ArrayPtr<const PeerAnswer> asked);

}  // namespace talos::supervisor
