// Majorities of voters. Pure.
#pragma once

#include "etcd-supervisor/plan/membership-types.h"

namespace talos::supervisor {

constexpr unsigned quorumOf(unsigned voters) {
  return voters / 2 + 1;
}

struct Votes {
  unsigned voters = 0, answering = 0;

  bool quorum() const { return voters > 0 && answering >= quorumOf(voters); }
  // Returns how many more may fail.
  unsigned tolerates() const { return quorum() ? answering - quorumOf(voters) : 0; }
};
Votes votesOf(kj::ArrayPtr<const MemberProbe> members);

// Effect of a removal on the cluster.
struct Removal {
  bool last = false;                // it removes the last voter, which is never done
  kj::Maybe<kj::String> objection;  // set if the others would have no quorum
};
Removal removalOf(kj::ArrayPtr<const MemberProbe> members, etcd::MemberId removed);

}  // namespace talos::supervisor
