#include "etcd-supervisor/plan/departure-check.h"

namespace talos::supervisor {
namespace {

kj::String withProblem(const MemberProbe& probe) {
  auto name = describe(probe.member);
  return probe.problem.size() > 0 ? kj::str(name, " (", probe.problem, ")") : kj::mv(name);
}

// Returns "etcd has 3 voters (n1, n2, n3); n3 (connection refused) is not healthy".
kj::String whoVotes(kj::ArrayPtr<const MemberProbe> members, kj::ArrayPtr<const kj::String> ill) {
  kj::Vector<kj::String> names;
  for (auto& probe : members) {
    if (!probe.member.learner) names.add(describe(probe.member));
  }
  return kj::str("etcd has ", names.size(), names.size() == 1 ? " voter (" : " voters (",
                 joined(names), ")", ill.size() == 0 ? "" : "; ", joined(ill),
                 ill.size() == 0   ? ""
                 : ill.size() == 1 ? " is not healthy"
                                   : " are not healthy");
}

kj::String tolerance(const Votes& votes, bool quorum) {
  if (!quorum) {
    return kj::str("there is no quorum (", votes.answering,
                   votes.answering == 1 ? " answers, " : " answer, ", quorumOf(votes.voters),
                   " must)");
  }
  auto failures = votes.tolerates();
  if (failures == 0) return kj::str("no failure is tolerated");
  return kj::str(failures, failures == 1 ? " failure is" : " failures are", " tolerated");
}

// Returns the votes without the node; while it is only away, it still counts as a voter.
Votes votesWithout(Going going, kj::ArrayPtr<const MemberProbe> members, etcd::MemberId own) {
  Votes votes;
  for (auto& probe : members) {
    bool gone = probe.member.id == own;
    if (probe.member.learner || (gone && going != Going::kRestarts)) continue;
    ++votes.voters;
    if (probe.answers && !gone) ++votes.answering;
  }
  return votes;
}

kj::StringPtr away(Going going) {
  return going == Going::kRestarts ? "while this node restarts"_kj : "without this node"_kj;
}

// Returns the objection if there are so few voters; the node is one of them.
kj::Maybe<kj::String> objectionToFew(Going going, unsigned voters) {
  if (voters == 1) {
    if (going == Going::kRestarts) return nullptr;
    return kj::str("this node is the only one: the cluster, and all of its data, would end with it",
                   going == Going::kRejoins ? "; use --preserve, which keeps the data" : "");
  }
  if (voters == 2 && going != Going::kLeaves) {
    return kj::str(going == Going::kRestarts
                       ? "while this node restarts there would be no quorum"
                       : "until this node has joined again the other one would have the only "
                         "copy of the data",
                   "; add a third control-plane node first");
  }
  return nullptr;
}

}  // namespace

kj::Maybe<kj::String> objectionTo(Going going, kj::ArrayPtr<const MemberProbe> members,
                                  etcd::MemberId own, bool quorum) {
  bool votes = false;
  kj::Vector<kj::String> ill, names;
  for (auto& probe : members) {
    if (probe.member.id == own) {
      votes = !probe.member.learner;
      continue;
    }
    // A node that is just joining is not a voter: leaving costs nothing, but an absence might keep
    // it from becoming one.
    if (probe.answers || (probe.member.learner && going == Going::kLeaves)) continue;
    ill.add(withProblem(probe));
    names.add(describe(probe.member));
  }
  if (!votes) return nullptr;
  auto now = votesOf(members), then = votesWithout(going, members, own);
  auto few = objectionToFew(going, now.voters);
  if (few == nullptr && ill.empty() && quorum) return nullptr;

  auto text = whoVotes(members, ill);
  KJ_IF_MAYBE (objection, few) return kj::str(text, "; ", *objection);
  if (ill.empty()) return kj::str(text, ", and no quorum now; start its members");
  // Without a quorum no member can be removed.
  auto removal = kj::str(", or remove ", names.size() == 1 ? "it" : "them",
                         " first with talosctl etcd remove-member");
  return kj::str(text, ": now ", tolerance(now, quorum && now.quorum()), ", ", away(going), " ",
                 tolerance(then, then.quorum()), "; start ", joined(names),
                 quorum ? kj::mv(removal) : kj::String());
}

}  // namespace talos::supervisor
