#include "etcd-supervisor/plan/etcd-quorum.h"

namespace talos::supervisor {

Votes votesOf(kj::ArrayPtr<const MemberProbe> members) {
  Votes votes;
  for (auto& probe : members) {
    if (probe.member.learner) continue;
    ++votes.voters;
    if (probe.answers) ++votes.answering;
  }
  return votes;
}

Removal removalOf(kj::ArrayPtr<const MemberProbe> members, etcd::MemberId removed) {
  Votes left;
  kj::Vector<kj::String> silent;
  for (auto& probe : members) {
    if (probe.member.id == removed && probe.member.learner) return {};  // it has no vote
    if (probe.member.id == removed || probe.member.learner) continue;
    ++left.voters;
    if (probe.answers) {
      ++left.answering;
    } else {
      silent.add(describe(probe.member));
    }
  }
  Removal removal;
  removal.last = left.voters == 0;
  if (!removal.last && !left.quorum()) {
    removal.objection = kj::str("of the ", left.voters, left.voters == 1 ? " voter" : " voters",
                                " that would be left only ", left.answering,
                                left.answering == 1 ? " answers" : " answer", ", and ",
                                quorumOf(left.voters), " must; no answer from ", joined(silent));
  }
  return removal;
}

}  // namespace talos::supervisor
