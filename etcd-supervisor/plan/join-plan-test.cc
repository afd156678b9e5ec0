#include "etcd-supervisor/plan/join-plan.h"

#include <gtest/gtest.h>

#include "etcd-supervisor/plan/etcd-quorum.h"

namespace talos::supervisor {
namespace {

MemberProbe probe(etcd::MemberId id, kj::StringPtr name, bool answers = true,
                  bool learner = false) {
  return {{id, kj::str(name), kj::arr(urlOf(kj::str("10.0.0.", id), 2380)),
           kj::arr(urlOf(kj::str("10.0.0.", id), 2379)), learner},
          answers};
}

template <typename... T>
JoinStep step(T&&... members) {
  return planJoin("n4", "https://10.0.0.4:2380", kj::arr(kj::mv(members)...));
}

TEST(JoinPlan, NewNodeIsAdded) {
  EXPECT_EQ(step(probe(1, "n1")).what, JoinStep::What::kAdd);
}

TEST(JoinPlan, OneLearnerAtATimeAndItIsNamed) {
  auto next = step(probe(1, "n1"), probe(2, "n2", false, true));
  EXPECT_EQ(next.what, JoinStep::What::kWait);
  EXPECT_EQ(next.message,
            "waiting until n2 votes: etcd takes one new member at a time; if its node is "
            "gone, run talosctl etcd remove-member 2");
}

TEST(JoinPlan, FormerMemberOfAReinstalledNodeGoesFirst) {
  auto next = step(probe(1, "n1"), probe(2, "n2"), probe(4, "n4", false));
  EXPECT_EQ(next.what, JoinStep::What::kRemove);
  EXPECT_EQ(next.member, 4u);
  // By its address too: it has been renamed, or has never started.
  EXPECT_EQ(step(probe(1, "n1"), probe(4, "", false, true)).member, 4u);
}

TEST(JoinPlan, RemovalThatWouldCostTheQuorumWaits) {
  auto next = step(probe(1, "n1"), probe(2, "n2", false), probe(4, "n4", false));
  EXPECT_EQ(next.what, JoinStep::What::kWait);
  EXPECT_EQ(next.message,
            "the cluster still has this node's former member 4, which cannot be removed: "
            "of the 2 voters that would be left only 1 answers, and 2 must; no answer "
            "from n2");
}

TEST(JoinPlan, AnotherMemberOfTheSameNameIsLeftAlone) {
  auto next = step(probe(1, "n1"), probe(3, "n4"));
  EXPECT_EQ(next.what, JoinStep::What::kWait);
  EXPECT_EQ(next.message,
            "another member, 3 with https://10.0.0.3:2380, has the name n4 too; set "
            "machine.network.hostname of one of them");
  // Catches: a voter that is removed while it reboots, by a node with its name.
  next = step(probe(1, "n1"), probe(2, "n2"), probe(3, "n4", false));
  EXPECT_EQ(next.what, JoinStep::What::kWait);
  EXPECT_EQ(next.message,
            "another member, 3 with https://10.0.0.3:2380, has the name n4 too; set "
            "machine.network.hostname of one of them, or, if it was this node, run talosctl etcd "
            "remove-member 3");
}

TEST(Quorum, MajorityAndWhatItTolerates) {
  unsigned tolerated[] = {0, 0, 1, 1, 2};
  for (unsigned voters = 1; voters <= 5; ++voters) {
    EXPECT_EQ((Votes{voters, voters}).tolerates(), tolerated[voters - 1]) << voters;
    EXPECT_FALSE((Votes{voters, quorumOf(voters) - 1}).quorum()) << voters;
    EXPECT_TRUE((Votes{voters, quorumOf(voters)}).quorum()) << voters;
  }
}

TEST(Quorum, RemovalLooksAtThoseThatWouldBeLeft) {
  auto of = [](etcd::MemberId id, auto... members) {
    return removalOf(kj::arr(kj::mv(members)...), id);
  };
  EXPECT_TRUE(of(1, probe(1, "n1")).last);
  EXPECT_TRUE(of(1, probe(1, "n1"), probe(2, "n2", true, true)).last);
  EXPECT_TRUE(of(1, probe(1, "n1"), probe(2, "n2")).objection == nullptr);
  EXPECT_TRUE(of(1, probe(1, "n1"), probe(2, "n2", false)).objection != nullptr);
  EXPECT_TRUE(of(3, probe(1, "n1"), probe(2, "n2"), probe(3, "n3", false)).objection == nullptr);
  EXPECT_TRUE(of(1, probe(1, "n1"), probe(2, "n2"), probe(3, "n3", false)).objection != nullptr);
  // A learner has no vote.
  EXPECT_TRUE(of(2, probe(1, "n1", false), probe(2, "n2", true, true)).objection == nullptr);
}

TEST(Facts, HostsOfUrls) {
  EXPECT_EQ(hostOf("https://10.0.0.2:2379"), "10.0.0.2");
  EXPECT_EQ(hostOf("https://[fd00::1]:2379"), "fd00::1");
  EXPECT_EQ(hostOf(urlOf("fd00::1", 2379)), "fd00::1");
  EXPECT_EQ(hostOf("https://node/"), "node");
  EXPECT_EQ(hostOf("https://[fd00"), "");
  EXPECT_EQ(hostOf("nonsense"), "");
}

}  // namespace
}  // namespace talos::supervisor
