// Leaving, removing, restarting, on a model of everything that membership stands on
// (test-membership-bed.h).
#include "etcd-supervisor/membership/test-operator-calls.h"

namespace talos::supervisor {
namespace {

TEST_F(Membership, LeavesAndJoinsAgainAfterTheNextBootOnly) {
  formed();
  leave(bed, n1);  // the leader
  EXPECT_EQ(outcome(), "n1 leave: done");
  EXPECT_EQ(n1.disk.data, Data::kNone);
  EXPECT_EQ(bed.clusters[0]->members.size(), 2u);
  EXPECT_TRUE(bed.quorum());
  bed.crash(n1);
  bed.pass(2 * kj::MINUTES);
  EXPECT_EQ(n1.status.phase, "left");
  EXPECT_EQ(bed.clusters[0]->members.size(), 2u);
  bed.powerOff(n1);
  bed.powerOn(n1);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
}

// Catches: a node that stays a member because the others have known each other for a moment only.
TEST_F(Membership, LeavesWhenEtcdTakesChangesAgain) {
  formed();
  auto& members = bed.clusters[0]->members;
  for (auto& item : members) item.second.aliveSince = bed.timer.now();
  auto begun = bed.timer.now();
  leave(bed, n3);
  EXPECT_EQ(outcome(), "n3 leave: done");
  EXPECT_GT(bed.timer.now() - begun, 3 * kj::SECONDS) << "the model does not refuse it at once";
  EXPECT_EQ(members.size(), 2u);
  for (auto& item : members) item.second.aliveSince = bed.timer.now();
  removeMember(bed, n1, n2);
  EXPECT_EQ(outcome(), "n1 remove n2: done");
  EXPECT_EQ(members.size(), 1u);
}

// Catches: a node that never joins, or never leaves, because the member that is called first
// considers an existing connection lost.
TEST_F(Membership, WhatOneMemberRefusesByMistakeAnotherOneIsAskedFor) {
  formed();
  auto& cluster = *bed.clusters[0];
  cluster.mistaken = {n1.disk.member};
  leave(bed, n3);
  EXPECT_EQ(outcome(), "n3 leave: done");
  bed.reinstall(n3);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all(); })) << n3.message;
  cluster.mistaken = {n2.disk.member};  // the only other one, where n1 has the change made
  removeMember(bed, n1, n3);
  EXPECT_EQ(outcome(), "n1 remove n3: done");
}

// Catches: a removal that takes effect at once but is answered half a minute later, because it was
// requested from the leaving member.
TEST_F(Membership, TheMemberThatGoesIsNotAskedForIt) {
  formed();
  auto begun = bed.timer.now();
  removeMember(bed, n1, n3);
  EXPECT_EQ(outcome(), "n1 remove n3: done");
  removeMember(bed, n1, n2);
  EXPECT_EQ(outcome(), "n1 remove n2: done");
  EXPECT_LT(bed.timer.now() - begun, 20 * kj::SECONDS);
}

TEST_F(Membership, RemovalThatCostsTheQuorumIsRefusedUnlessForced) {
  formed();
  bed.powerOff(n3);
  bed.pass(10 * kj::SECONDS);
  leave(bed, n2);
  EXPECT_EQ(outcome(),
            "n2 leave: the cluster would lose its quorum: of the 2 voters that would be left only "
            "1 answers, and 2 must; no answer from n3; start those members, remove them first, or "
            "use --force");
  removeMember(bed, n1, n2);
  EXPECT_NE(outcome().find("would lose its quorum"), std::string::npos) << bed.outcomes.back();
  EXPECT_EQ(bed.clusters[0]->members.size(), 3u);
  removeMember(bed, n1, n3);
  EXPECT_EQ(outcome(), "n1 remove n3: done");
  EXPECT_EQ(bed.clusters[0]->members.size(), 2u);
}

constexpr kj::StringPtr kOneIsOff =
    "etcd has 3 voters (n1, n2, n3); n3 (etcd at 10.0.0.3:2379: Connection refused) is not "
    "healthy: now no failure is tolerated, without this node there is no quorum (1 answers, 2 "
    "must); start "
    "n3, or remove it first with talosctl etcd remove-member"_kj;

// Catches: a reset that is promised although it would cost the quorum, or that changes something
// before it is refused; a node that does not go although it may, or not a second time.
TEST_F(Membership, WithdrawsWhenTheOthersAreWellAndOnlyThen) {
  formed();
  bed.powerOff(n3);
  bed.pass(10 * kj::SECONDS);
  lookOut(bed, n2, Going::kLeaves);
  EXPECT_EQ(outcome(), kj::str("n2 outlook: ", kOneIsOff).cStr());
  withdraw(bed, n2, Going::kLeaves);
  EXPECT_EQ(outcome(), kj::str("n2 withdraw: ", kOneIsOff).cStr());
  EXPECT_EQ(n2.disk.intent.state, Intent::State::kNone);
  EXPECT_TRUE(n2.holds);
  EXPECT_EQ(bed.clusters[0]->members.size(), 3u);

  bed.powerOn(n3);
  ASSERT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
  bed.pass(10 * kj::SECONDS);
  for (auto going : {Going::kLeaves, Going::kRejoins, Going::kRestarts}) {
    lookOut(bed, n2, going);
    EXPECT_EQ(outcome(), "n2 outlook: done");
  }
  withdraw(bed, n2, Going::kLeaves);
  EXPECT_EQ(outcome(), "n2 withdraw: done");
  EXPECT_FALSE(n2.holds);
  EXPECT_EQ(bed.clusters[0]->members.size(), 2u);
  withdraw(bed, n2, Going::kLeaves);
  EXPECT_EQ(outcome(), "n2 withdraw: done");

  // One of two may leave, but must not be away while the other one needs it.
  lookOut(bed, n1, Going::kRestarts);
  EXPECT_NE(outcome().find("while this node restarts there would be no quorum"), std::string::npos);
  bed.powerOff(n3);
  bed.pass(10 * kj::SECONDS);
  lookOut(bed, n1, Going::kLeaves);
  EXPECT_NE(outcome().find("n1 outlook: etcd has 2 voters (n1, n3); "), std::string::npos)
      << bed.outcomes.back();
  withdraw(bed, n1, Going::kLeaves);
  EXPECT_NE(outcome().find("no member answers: "), std::string::npos) << bed.outcomes.back();
  EXPECT_EQ(bed.clusters[0]->members.size(), 2u);
}

// Catches: two nodes that restart at the same time, each of which the others could do without; a
// turn that is kept for ever by one that never restarts.
TEST_F(Membership, RestartsTakeTurns) {
  formed();
  withdraw(bed, n1, Going::kRestarts);
  EXPECT_EQ(outcome(), "n1 withdraw: done");
  withdraw(bed, n2, Going::kRestarts);
  bed.pass(30 * kj::SECONDS);
  EXPECT_EQ(bed.pending, 1u) << "it is the turn of n1";
  bed.powerOff(n1);
  EXPECT_NE(outcome().find("n2 withdraw: "), std::string::npos);
  EXPECT_EQ(outcome().find("done"), std::string::npos) << bed.outcomes.back();
  withdraw(bed, n2, Going::kRestarts);
  EXPECT_NE(outcome().find("n1 (etcd at 10.0.0.1:2379: Connection refused) is not healthy"),
            std::string::npos)
      << bed.outcomes.back();
  bed.powerOn(n1);
  ASSERT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
  withdraw(bed, n2, Going::kRestarts);
  EXPECT_EQ(outcome(), "n2 withdraw: done");

  bed.pass(6 * kj::MINUTES);
  withdraw(bed, n3, Going::kRestarts);
  EXPECT_EQ(outcome(), "n3 withdraw: done");
}

// Catches: an endless wait for an address that vipd does not give up.
TEST_F(Membership, AnAddressThatIsNotGivenUpIsLeftToItsLease) {
  formed();
  n3.vipdHangs = true;
  auto begun = bed.timer.now();
  leave(bed, n3);
  EXPECT_TRUE(bed.eventually(30 * kj::SECONDS, [&] { return bed.pending == 0; }));
  EXPECT_EQ(outcome(), "n3 leave: done");
  EXPECT_GE(bed.timer.now() - begun, 8 * kj::SECONDS);
  EXPECT_TRUE(n3.holds);
}

// Catches: a node that counts as healthy because it answers, although it cannot read what the
// others have.
TEST_F(Membership, AMemberThatIsCutOffFromTheOthersIsIll) {
  formed();
  n3.cutOff = true;
  lookOut(bed, n1, Going::kRestarts);
  EXPECT_NE(outcome().find("n3 (etcd at 10.0.0.3:2379: etcdserver: no leader) is not healthy"),
            std::string::npos)
      << bed.outcomes.back();
}

// Catches: a full disk that is reported as an etcd that does not answer.
TEST_F(Membership, AFullDiskIsNamed) {
  formed();
  n3.freeBytes = 3 << 20;
  bed.pass(20 * kj::SECONDS);
  EXPECT_EQ(n3.message, "") << "it runs";
  n3.killed = true;
  n3.changed.raise();
  EXPECT_TRUE(bed.eventually(kTimeout, [&] {
    return n3.message.find(
               "the disk of /var/lib/etcd is full (3 MiB left, etcd needs 64 to go on); "
               "make room: ") == 0;
  })) << n3.message;
  n3.freeBytes = 1 << 30;
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all() && n3.message.empty(); })) << n3.message;
}

TEST_F(Membership, OnlyVoterDoesNotLeave) {
  bed.powerOn(n1);
  bed.pass(5 * kj::SECONDS);
  bootstrap(bed, n1, {"10.0.0.2", "10.0.0.3"});
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
  for (bool force : {false, true}) {
    leave(bed, n1, force);
    EXPECT_EQ(outcome(),
              "n1 leave: this is the only voting member: its cluster ends with it; erase it with "
              "talosctl reset --graceful=false");
  }
  withdraw(bed, n1, Going::kLeaves);
  EXPECT_EQ(outcome(),
            "n1 withdraw: etcd has 1 voter (n1); this node is the only one: the cluster, and all "
            "of its data, would end with it");
  withdraw(bed, n1, Going::kRejoins, true);
  EXPECT_NE(outcome().find("this is the only voting member"), std::string::npos);
  lookOut(bed, n1, Going::kRestarts);
  EXPECT_EQ(outcome(), "n1 outlook: done");
}

// Catches: a node without a cluster that cannot be reset.
TEST_F(Membership, NodeInNoClusterHasNothingToLeave) {
  bed.powerOn(n1);
  bed.pass(5 * kj::SECONDS);
  for (auto going : {Going::kLeaves, Going::kRejoins, Going::kRestarts}) {
    lookOut(bed, n1, going);
    EXPECT_EQ(outcome(), "n1 outlook: done");
    withdraw(bed, n1, going);
    EXPECT_EQ(outcome(), "n1 withdraw: done");
  }
}

TEST_F(Membership, NodeThatOthersRemovedSaysSoAndKeepsItsData) {
  formed();
  removeMember(bed, n1, n3);
  EXPECT_EQ(outcome(), "n1 remove n3: done");
  EXPECT_TRUE(bed.eventually(kTimeout, [&] {
    return n3.message ==
           "the other members have removed this one; run talosctl etcd leave on this node, and "
           "reboot it to join again";
  })) << n3.message;
  EXPECT_EQ(n3.disk.data, Data::kWhole);
  leave(bed, n3);
  EXPECT_EQ(outcome(), "n3 leave: done");
  EXPECT_EQ(n3.disk.data, Data::kNone);
  removeMember(bed, n1, n1);
  EXPECT_EQ(outcome(), "n1 remove n1: \"n1\" is this node; use talosctl etcd leave");
  removeMember(bed, n1, n3);
  EXPECT_NE(outcome().find("the cluster has no member \"n3\"; it has "), std::string::npos);
}

// Catches: a removed member that takes a new one with its name for itself, and removes it.
TEST(Names, ARemovedMemberIsNotTheNewOneWithItsName) {
  Quiet quiet;
  Testbed bed(1, 4);
  auto &n1 = *bed.nodes[0], &old = *bed.nodes[2], &fresh = *bed.nodes[3];
  fresh.config.name = kj::str("n3");
  for (auto i : {0, 1, 2}) bed.powerOn(*bed.nodes[i]);
  bed.pass(5 * kj::SECONDS);
  bootstrap(bed, n1, {"10.0.0.4"});
  ASSERT_TRUE(bed.eventually(kTimeout, [&] {
    return bed.votes(n1) && bed.votes(*bed.nodes[1]) && old.status.phase == "member" &&
           old.disk.intent.member == old.disk.member;
  }));
  bed.pass(10 * kj::SECONDS);
  bed.powerOff(old);
  bed.pass(10 * kj::SECONDS);
  bed.outcomes.clear();
  removeMember(bed, n1, old);
  ASSERT_TRUE(bed.eventually(kTimeout, [&] { return bed.pending == 0; }));
  EXPECT_EQ(bed.outcomes.back(), "n1 remove n3: done");
  bed.powerOn(fresh);
  ASSERT_TRUE(bed.eventually(kTimeout, [&] { return bed.votes(fresh); }));

  bed.powerOn(old);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] {
    return old.message.find("the other members have removed this one") == 0;
  })) << old.message;
  bed.outcomes.clear();
  leave(bed, old);
  ASSERT_TRUE(bed.eventually(kTimeout, [&] { return bed.pending == 0; }));
  EXPECT_EQ(bed.outcomes.back(), "n3 leave: done");
  EXPECT_EQ(old.disk.data, Data::kNone);
  EXPECT_TRUE(bed.votes(fresh));
  EXPECT_EQ(bed.clusters[0]->members.size(), 3u);
  for (auto& what : bed.violations) ADD_FAILURE() << what;
}

TEST_F(Membership, DeathBetweenTheRemovalAndItsRecordIsSettledByTheOthers) {
  formed();
  for (bool removed : {false, true}) {
    SCOPED_TRACE(removed);
    bed.crash(n3);
    n3.disk.intent.state = Intent::State::kLeaves;
    n3.disk.intent.member = n3.disk.member;
    if (removed) bed.clusters[0]->members.erase(n3.disk.member);
    EXPECT_TRUE(bed.eventually(kTimeout, [&] {
      return removed ? n3.disk.data == Data::kNone && n3.status.phase == "left"
                     : all() && n3.disk.intent.state == Intent::State::kNone;
    }));
  }
}

TEST_F(Membership, DeathWhileItLeavesIsTakenUpAgain) {
  formed();
  leave(bed, n3);
  auto until = bed.timer.now() + kTimeout;
  while (n3.disk.intent.state != Intent::State::kLeaves) {
    ASSERT_LT(bed.timer.now(), until) << testing::PrintToString(bed.outcomes);
    bed.pass(1 * kj::MILLISECONDS);
  }
  bed.crash(n3);  // its request to the cluster is under way
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return n3.status.phase == "left"; }));
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return n3.disk.data == Data::kNone; }));
  EXPECT_EQ(bed.clusters[0]->members.size(), 2u);
}

// Catches: a new cluster over the remains of the data; a status that does not name the cause.
TEST_F(Membership, LogOfEtcdThatIsGoneMakesNoNewCluster) {
  formed();
  bed.powerOff(n3);
  n3.disk.data = Data::kPartial;
  bed.powerOn(n3);
  bed.pass(2 * kj::MINUTES);
  EXPECT_EQ(bed.clusters.size(), 1u);
  EXPECT_FALSE(n3.running);
  EXPECT_EQ(n3.status.phase, "waiting");
  EXPECT_EQ(n3.message,
            "waiting for its data: /var/lib/etcd has files but no log of etcd (member/wal); "
            "recover them, or erase them with talosctl reset --system-labels-to-wipe=EPHEMERAL");
  bootstrap(bed, n3);
  EXPECT_EQ(outcome(),
            "n3 bootstrap: the data directory /var/lib/etcd is not empty; etcd makes no "
            "new cluster over what is there");
}

TEST_F(Membership, LeadershipGoesToAnotherVoter) {
  formed();
  auto leader = bed.clusters[0]->leader;
  Node* leads = nullptr;
  for (auto& node : bed.nodes) {
    if (node->disk.member == leader) leads = node.get();
  }
  ASSERT_NE(leads, nullptr);
  bed.ask<kj::String>(*leads, "forfeit", [](MembershipReconciler& reconciler) {
    return reconciler.forfeitLeadership();
  });
  EXPECT_NE(outcome().find("done"), std::string::npos);
  EXPECT_NE(bed.clusters[0]->leader, leader);
}

}  // namespace
}  // namespace talos::supervisor
