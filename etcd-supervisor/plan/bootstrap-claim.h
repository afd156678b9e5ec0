// Decides which node makes the cluster when several are asked to at once. Pure.
//
// A node that is to make one first claims it: from then on it says so to whoever asks, and only
// then asks every other node. It goes on to make the cluster only when every one of them has said
// during this claim that it has none and claims none.
//
// Why there are never two: let A and B both make one. Each has claimed, then asked the other, then
// made; and from its claim on each has said `claims`, then `makes`, then `member`, never `none`.
// A heard `none` from B, so A asked before B claimed, thus A claimed before B claimed. In the same
// way B claimed before A claimed.
// A crash takes a claim with it, because it is kept nowhere: who has claimed and crashed does not
// make anything by that claim. `makes` is on disk before etcd is started, so a node that restarts
// in the middle says it again before it says anything else, and is the only one that may go on.
//
// It is enough that one of the two knows of the other. Let only A know of B: a node that is asked
// for a claim has the asker on disk before it says `none`, and asks it from then on. So if A heard
// `none` from B before B claimed, B asks A during its claim, and hears no `none`; otherwise A hears
// B's claim.
//
// A node knows the nodes that its config names, that the operator's client names (`among`), and
// that have asked it. A node that none of these name is not asked, and neither is one that the
// operator excepts (`without`): that says that it has no cluster.
//
// Why one of them goes on: of two that claim, the one whose name sorts first keeps its claim and
// asks until the other has withdrawn; the other withdraws as soon as it hears of the first.
#pragma once

#include "common/base/error.h"
#include "etcd-supervisor/plan/membership-types.h"

namespace talos::supervisor {

struct Claim {
  kj::StringPtr name;  // of this node
  int64_t since;       // distinguishes this claim from that of a node of the same name
};

struct Verdict {
  enum class What { kMake, kAsk, kWithdraw };
  What what = What::kMake;
  ErrorKind kind = ErrorKind::kInternal;  // kWithdraw
  kj::String message;                     // not yet, or not at all
  kj::String whose;                       // kWithdraw: the address of who has the cluster, or will
};

// `asked` is what came of one round, all of it asked after the claim.
Verdict judge(const Claim& claim, kj::ArrayPtr<const Asked> asked);

}  // namespace talos::supervisor
