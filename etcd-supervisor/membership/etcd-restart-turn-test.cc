// Members that restart because the config has changed, on a model of everything that membership
// stands on (test-membership-bed.h).
#include "etcd-supervisor/membership/test-operator-calls.h"

namespace talos::supervisor {
namespace {

void change(Node& node, kj::StringPtr value) {
  node.config.extraArgs.clear();
  node.config.extraArgs.add(Argument{kj::str("snapshot-count"), kj::str(value)});
  node.wake();
}

// Returns true if its etcd runs with this value.
bool has(const Node& node, kj::StringPtr value) {
  if (!node.serves()) return false;
  for (auto& argument : node.runsBy) {
    if (argument.key == "snapshot-count" && argument.value == value) return true;
  }
  return false;
}

// Returns true if the message of its EtcdStatus contains this text.
bool says(Node& node, std::string_view words) {
  return node.message.find(words) != std::string::npos;
}

// Catches: members that restart together, or never.
TEST_F(Membership, RestartOneAfterAnother) {
  formed();
  for (auto& node : bed.nodes) change(*node, "7");
  size_t most = 0;
  EXPECT_TRUE(bed.eventually(kTimeout, [&] {
    for (int i = 0; i < 20; ++i) {
      bed.pass(20 * kj::MILLISECONDS);
      most = std::max(most, bed.reruns.size());
      if (!bed.quorum()) ADD_FAILURE() << "the restarts have cost the quorum";
    }
    return has(n1, "7") && has(n2, "7") && has(n3, "7");
  }));
  EXPECT_EQ(most, 1u);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return n1.message.empty(); })) << n1.message;
}

// Catches: a member that restarts though the others have no quorum without it, or that reports no
// cause.
TEST_F(Membership, AMemberThatIsNeededWaitsAndSaysSo) {
  formed();
  bed.powerOff(n3);
  bed.pass(10 * kj::SECONDS);
  change(n1, "7");
  EXPECT_TRUE(bed.eventually(kTimeout, [&] {
    return says(n1,
                "waiting to restart etcd with the changed config: etcd has "
                "3 voters (n1, n2, n3); n3 (");
  })) << n1.message;
  bed.pass(2 * kj::MINUTES);
  EXPECT_FALSE(has(n1, "7"));
  EXPECT_TRUE(n1.serves());
  bed.powerOn(n3);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return has(n1, "7"); })) << n1.message;
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return n1.message.empty(); })) << n1.message;
}

// Catches: a refused turn that keeps its locks, so that the node that would end the wait stands in
// line after two nodes that need nothing.
TEST_F(Membership, ARefusedTurnKeepsNobodyWaiting) {
  bed.powerOn(n1);
  bed.powerOn(n2);
  bed.pass(5 * kj::SECONDS);
  bootstrap(bed, n1, {"10.0.0.3"});
  ASSERT_TRUE(bed.eventually(kTimeout, [&] { return bed.votes(n1) && bed.votes(n2); }));
  bed.pass(10 * kj::SECONDS);
  for (auto node : {&n1, &n2}) change(*node, "7");
  ASSERT_TRUE(bed.eventually(kTimeout, [&] {
    return says(n1, "waiting to restart etcd") && says(n2, "waiting to restart etcd");
  }));
  bed.powerOn(n3);
  EXPECT_TRUE(bed.eventually(30 * kj::SECONDS, [&] { return bed.votes(n3); })) << n3.message;
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return has(n1, "7") && has(n2, "7"); }));
}

// Catches: a message that stays when there is nothing to wait for.
TEST_F(Membership, AChangeThatIsTakenBackWaitsForNothing) {
  formed();
  bed.powerOff(n3);
  bed.pass(10 * kj::SECONDS);
  change(n1, "7");
  ASSERT_TRUE(bed.eventually(kTimeout, [&] { return says(n1, "waiting to restart etcd"); }));
  n1.config.extraArgs.clear();
  n1.wake();
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return n1.message.empty(); })) << n1.message;
}

TEST_F(Membership, TheOnlyMemberRestartsAtOnce) {
  bed.powerOn(n1);
  bed.pass(5 * kj::SECONDS);
  bootstrap(bed, n1, {"10.0.0.2", "10.0.0.3"});
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
  change(n1, "7");
  EXPECT_TRUE(bed.eventually(30 * kj::SECONDS, [&] { return has(n1, "7"); }));
}

// Catches: a restart beside a removal of another member, or a reboot, which were each allowed
// alone.
TEST_F(Membership, NobodyRestartsWhileAnotherIsAwayForAReboot) {
  formed();
  withdraw(bed, n2, Going::kRestarts);
  EXPECT_EQ(outcome(), "n2 withdraw: done");
  change(n1, "7");
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return says(n1, "waiting until n2 has restarted"); }))
      << n1.message;
  bed.pass(30 * kj::SECONDS);
  EXPECT_FALSE(has(n1, "7"));
  EXPECT_TRUE(bed.eventually(2 * kTimeout, [&] { return has(n1, "7"); })) << n1.message;
}

// Catches: a turn that dies with who gave it, and a second one beside it.
TEST(Reruns, NeverCostTheQuorumWhoeverDies) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Quiet quiet;
    Testbed bed(seed, 3 + seed % 3);
    for (auto& node : bed.nodes) bed.powerOn(*node);
    bed.pass(5 * kj::SECONDS);
    bootstrap(bed, *bed.nodes[0]);
    ASSERT_TRUE(bed.eventually(2 * kTimeout, [&] {
      for (auto& node : bed.nodes) {
        if (!bed.votes(*node) || node->status.phase != "member") return false;
      }
      return true;
    })) << seed;
    bed.pass(10 * kj::SECONDS);
    unsigned lost = 0;
    for (unsigned round = 0; round < 200; ++round) {
      auto& node = *bed.nodes[bed.pick(static_cast<unsigned>(bed.nodes.size()))];
      if (round < 100 && bed.chance() < 0.2) change(node, kj::str(round / 50));
      if (round < 100 && bed.chance() < 0.1) bed.crash(node);
      for (unsigned i = 0; i < 20; ++i) {
        bed.pass(50 * kj::MILLISECONDS);
        lost += bed.quorum() ? 0 : 1;
      }
    }
    EXPECT_EQ(lost, 0u) << "schedule " << seed;
    for (auto& node : bed.nodes) change(*node, "9");
    EXPECT_TRUE(bed.eventually(4 * kTimeout, [&] {
      for (auto& node : bed.nodes) {
        if (!has(*node, "9")) return false;
      }
      return true;
    })) << seed;
    for (auto& what : bed.violations) ADD_FAILURE() << what << ", schedule " << seed;
  }
}

}  // namespace
}  // namespace talos::supervisor
