// A departing node: it restarts, leaves, or is erased.
#include "etcd-supervisor/membership/test-operator-calls.h"

namespace talos::supervisor {
namespace {

struct Goings : public Membership {
  // Damages a node: the log of its etcd is lost, all else remains.
  void damage(Node& node) {
    bed.powerOff(node);
    node.disk.data = Data::kPartial;
    bed.powerOn(node);
    bed.pass(20 * kj::SECONDS);
  }
};

// Catches: a member without a leader that waits for a lock through itself until the timeout, and so
// can never be restarted; a member that may restart though the others have no vote to spare.
TEST_F(Goings, AMemberThatIsCutOffAsksTheOthers) {
  formed();
  n1.cutOff = true;
  withdraw(bed, n1, Going::kRestarts);
  EXPECT_EQ("n1 withdraw: done", outcome());
  n2.cutOff = true;
  withdraw(bed, n1, Going::kRestarts);
  EXPECT_NE(std::string::npos, outcome().find("n2 ("));
  EXPECT_NE(std::string::npos, outcome().find("is not healthy"));
}

// Catches: two simultaneous requests for a turn, of which one drops the other's; a turn that is
// kept by a node that does not restart after all.
TEST_F(Goings, ATurnIsOneAndIsGivenBack) {
  formed();
  withdraw(bed, n1, Going::kRestarts);
  EXPECT_EQ("n1 withdraw: done", outcome());
  withdraw(bed, n2, Going::kRestarts);
  bed.pass(2 * kj::SECONDS);
  withdraw(bed, n2, Going::kRestarts);
  bed.pass(2 * kj::SECONDS);
  ASSERT_EQ(2u, bed.outcomes.size());
  EXPECT_NE(std::string::npos,
            bed.outcomes.back().find("this node is busy: it waits for its turn to restart"));
  EXPECT_EQ(1u, bed.pending) << "it is the turn of n1";
  n1.process->reconciler.stay();
  EXPECT_EQ("n2 withdraw: done", outcome());
}

// Catches: a turn that lasts until its lease expires although the node is back, so that the next
// node times out earlier.
TEST_F(Goings, ATurnEndsWhenTheNodeIsBack) {
  formed();
  for (auto node : {&n1, &n2, &n3, &n1}) {
    withdraw(bed, *node, Going::kRestarts);
    EXPECT_EQ(kj::str(node->config.name, " withdraw: done").cStr(), outcome());
    bed.powerOff(*node);
    bed.pass(2 * kj::SECONDS);
    bed.powerOn(*node);
    ASSERT_TRUE(
        bed.eventually(15 * kj::SECONDS, [&] { return node->disk.intent.rebootLease == 0; }));
  }
}

// Catches: a restart of etcd-supervisor that counts as the reboot for which the node has its turn.
TEST_F(Goings, ARestartOfTheProcessAloneEndsNoTurn) {
  formed();
  withdraw(bed, n1, Going::kRestarts);
  EXPECT_EQ("n1 withdraw: done", outcome());
  bed.crash(n1);
  bed.pass(10 * kj::SECONDS);
  ASSERT_TRUE(n1.serves());
  withdraw(bed, n2, Going::kRestarts);
  bed.pass(30 * kj::SECONDS);
  EXPECT_EQ(1u, bed.pending) << "n1 may still reboot";
  bed.powerOff(n1);
  bed.pass(2 * kj::SECONDS);
  bed.powerOn(n1);
  EXPECT_TRUE(bed.eventually(15 * kj::SECONDS, [&] { return bed.pending == 0; }));
}

// Catches: a node that asks again right before it goes, and that loses its turn to the next node in
// the queue by this; one that goes although another member has failed since it took its turn.
TEST_F(Goings, ATurnThatIsTakenAgainIsKeptWhileTheOthersAreWell) {
  formed();
  withdraw(bed, n1, Going::kRestarts);
  EXPECT_EQ("n1 withdraw: done", outcome());
  withdraw(bed, n2, Going::kRestarts);
  bed.pass(2 * kj::SECONDS);
  withdraw(bed, n1, Going::kRestarts);
  bed.pass(2 * kj::SECONDS);
  EXPECT_EQ("n1 withdraw: done", bed.outcomes.back());
  EXPECT_EQ(1u, bed.pending) << "n2 still waits";
  bed.powerOff(n3);
  withdraw(bed, n1, Going::kRestarts);
  ASSERT_TRUE(bed.eventually(10 * kj::SECONDS, [&] { return bed.outcomes.size() >= 3; }));
  EXPECT_NE(std::string::npos, bed.outcomes[2].find("n3 (")) << bed.outcomes[2];
}

// Catches: a member that leaves while another one is about to restart: each alone leaves a
// majority, both together do not.
TEST_F(Goings, NoMemberLeavesWhileAnotherIsAboutToBeAway) {
  formed();
  withdraw(bed, n1, Going::kRestarts);
  EXPECT_EQ("n1 withdraw: done", outcome());
  withdraw(bed, n2, Going::kLeaves);
  EXPECT_EQ(
      "n2 withdraw: n1 is about to restart, or restarts; retry when it is back, or use --force",
      outcome());
  leave(bed, n2);
  EXPECT_NE(std::string::npos, outcome().find("n1 is about to restart"));
  EXPECT_EQ(3u, bed.clusters[0]->members.size());
  n1.process->reconciler.stay();
  bed.pass(2 * kj::SECONDS);
  withdraw(bed, n2, Going::kLeaves);
  EXPECT_EQ("n2 withdraw: done", outcome());
}

// Catches: a node that publishes that it leaves only when it has looked again at all
// members, of which some are silent.
TEST_F(Goings, PublishesAtOnceThatItLeaves) {
  formed();
  bed.slow[&n3] = 10 * kj::SECONDS;
  bed.pass(10 * kj::SECONDS);
  auto begun = bed.timer.now();
  leave(bed, n1, true);
  while (n1.status.phase == "member") bed.pass(100 * kj::MILLISECONDS);
  // n3 is waited for once, before it is decided.
  EXPECT_LT(bed.timer.now() - begun, 3 * kj::SECONDS);
  EXPECT_EQ("n1 leave: done", outcome());
}

// Catches: a node that is erased after it lost the log of its etcd, and that the others count among
// the voters for ever.
TEST_F(Goings, OneThatHasLostItsLogIsTakenOutByTheOthers) {
  formed();
  damage(n3);
  lookOut(bed, n3, Going::kLeaves);
  EXPECT_EQ("n3 outlook: done", outcome());
  leave(bed, n3);
  EXPECT_EQ("n3 leave: this node is not a member of a cluster", outcome());
  EXPECT_EQ(Data::kPartial, n3.disk.data) << "it may be worth recovering";
  withdraw(bed, n3, Going::kLeaves);
  EXPECT_EQ("n3 withdraw: done", outcome());
  EXPECT_EQ(2u, bed.clusters[0]->members.size());
}

// Catches: a node that counts as outside any cluster because no member has confirmed that it is in
// one.
TEST_F(Goings, OneThatHasLostItsLogDoesNotGuess) {
  formed();
  damage(n3);
  bed.powerOff(n1);
  bed.powerOff(n2);
  for (auto going : {Going::kLeaves, Going::kRejoins}) {
    lookOut(bed, n3, going);
    EXPECT_NE(std::string::npos, outcome().find("no answer from 10.0.0.1, 10.0.0.2; start them"))
        << bed.outcomes.back();
  }
  lookOut(bed, n3, Going::kRestarts);
  EXPECT_EQ("n3 outlook: done", outcome()) << "it is away already";
}

// Catches: a node that can never be erased.
TEST_F(Goings, DamagedDataOfNoClusterGo) {
  n3.disk.data = Data::kPartial;
  for (auto& node : bed.nodes) bed.powerOn(*node);
  bed.pass(20 * kj::SECONDS);
  lookOut(bed, n3, Going::kLeaves);
  EXPECT_EQ("n3 outlook: done", outcome());
  withdraw(bed, n3, Going::kLeaves);
  EXPECT_EQ("n3 withdraw: done", outcome());
  EXPECT_EQ(Data::kPartial, n3.disk.data);
}

}  // namespace
}  // namespace talos::supervisor
