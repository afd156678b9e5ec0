#include "etcd-supervisor/plan/departure-check.h"

#include <gtest/gtest.h>

namespace talos::supervisor {
namespace {

// Returns members by letters: v is a voter that answers, s one that does not; l and m are a learner
// that does and one that does not.
kj::Vector<MemberProbe> probes(kj::StringPtr kinds) {
  kj::Vector<MemberProbe> result;
  for (auto kind : kinds) {
    MemberProbe probe;
    probe.member.id = result.size() + 1;
    probe.member.name = kj::str("n", result.size() + 1);
    probe.member.learner = kind == 'l' || kind == 'm';
    probe.answers = kind == 'v' || kind == 'l';
    if (!probe.answers) probe.problem = kj::str("connection refused");
    result.add(kj::mv(probe));
  }
  return result;
}

std::string objection(Going going, kj::StringPtr kinds, etcd::MemberId own = 1,
                      bool quorum = true) {
  KJ_IF_MAYBE (text, objectionTo(going, probes(kinds), own, quorum)) return text->cStr();
  return "";
}

// Catches: a node that may go though its cluster needs it; a node that is kept though it may go; an
// off-by-one in the failures tolerated before and after; a missing remedy.
TEST(Departure, IsRefusedWhereItWouldCostTheQuorumOrAnotherVoterIsIll) {
  struct Row {
    Going going;
    kj::StringPtr kinds;
    const char* text;
  } rows[] = {
      {Going::kLeaves, "vvv", ""},
      {Going::kLeaves, "vvvv", ""},
      {Going::kLeaves, "vv", ""},
      {Going::kRejoins, "vvv", ""},
      {Going::kRestarts, "vvv", ""},
      {Going::kRestarts, "v", ""},
      // The node itself is unhealthy: it goes, and the others are enough.
      {Going::kLeaves, "svv", ""},
      {Going::kRestarts, "svv", ""},
      {Going::kLeaves, "vvs",
       "etcd has 3 voters (n1, n2, n3); n3 (connection refused) is not healthy: now no failure is "
       "tolerated, without this node there is no quorum (1 answers, 2 must); start n3, or remove "
       "it first with talosctl etcd remove-member"},
      {Going::kRestarts, "vvs",
       "etcd has 3 voters (n1, n2, n3); n3 (connection refused) is not healthy: now no failure is "
       "tolerated, while this node restarts there is no quorum (1 answers, 2 must); start n3, or "
       "remove it first with talosctl etcd remove-member"},
      {Going::kLeaves, "vvvvs",
       "etcd has 5 voters (n1, n2, n3, n4, n5); n5 (connection refused) is not healthy: now 1 "
       "failure is tolerated, without this node no failure is tolerated; start n5, or remove it "
       "first with talosctl etcd remove-member"},
      {Going::kRestarts, "vvvvvss",
       "etcd has 7 voters (n1, n2, n3, n4, n5, n6, n7); n6 (connection refused), n7 (connection "
       "refused) are not healthy: now 1 failure is tolerated, while this node restarts no failure "
       "is tolerated; start n6, n7, or remove them first with talosctl etcd remove-member"},
      {Going::kLeaves, "v",
       "etcd has 1 voter (n1); this node is the only one: the cluster, and all of its data, would "
       "end with it"},
      {Going::kRejoins, "v",
       "etcd has 1 voter (n1); this node is the only one: the cluster, and all of its data, would "
       "end with it; use --preserve, which keeps the data"},
      {Going::kRejoins, "vv",
       "etcd has 2 voters (n1, n2); until this node has joined again the other one would have the "
       "only copy of the data; add a third control-plane node first"},
      {Going::kRestarts, "vv",
       "etcd has 2 voters (n1, n2); while this node restarts there would be no quorum; add a third "
       "control-plane node first"},
      // A node that is just joining: its departure does not matter to it, its return does.
      {Going::kLeaves, "vvm", ""},
      {Going::kRestarts, "vvvl", ""},
      {Going::kRestarts, "vvvm",
       "etcd has 3 voters (n1, n2, n3); n4 (connection refused) is not healthy: now 1 failure is "
       "tolerated, while this node restarts no failure is tolerated; start n4, or remove it first "
       "with talosctl etcd remove-member"},
  };
  for (auto& row : rows) {
    EXPECT_EQ(objection(row.going, row.kinds), row.text)
        << row.kinds.cStr() << " " << static_cast<int>(row.going);
  }
}

// Catches: a quorum that is computed although the members know that it is lost; a node without a
// vote that is kept because of others.
TEST(Departure, WithoutAQuorumNobodyVotingGoes) {
  EXPECT_EQ(objection(Going::kLeaves, "sv", 1, false),
            "etcd has 2 voters (n1, n2), and no quorum now; start its members");
  EXPECT_EQ(
      objection(Going::kLeaves, "vs", 1, false),
      "etcd has 2 voters (n1, n2); n2 (connection refused) is not healthy: now there is no quorum "
      "(1 answers, 2 must), without this node there is no quorum (0 answer, 1 must); start n2");
  EXPECT_EQ(objection(Going::kLeaves, "lvs", 1, false), "");
  EXPECT_EQ(objection(Going::kRestarts, "vs", 7, false), "");
}

}  // namespace
}  // namespace talos::supervisor
