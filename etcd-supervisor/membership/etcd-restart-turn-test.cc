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

// It runs with this.
bool has(const Node& node, kj::StringPtr value) {
  if (!node.serves()) return false;
  for (auto& argument : node.runsBy) {
    if (argument.key == "snapshot-count" && argument.value == value) return true;
  }
  return false;
}

// What its etcdstatus says.
bool says(Node& node, std::string_view words) {
  return node.message.find(words) != std::string::npos;
}

// Catches: members that restart together, and none that does.
TEST_F(Membership, RestartOneAfterAnother) {
  formed();
  for (auto& node : world.nodes) change(*node, "7");
  size_t most = 0;
  EXPECT_TRUE(world.eventually(kPatience, [&] {
    for (int i = 0; i < 20; ++i) {
      world.pass(20 * kj::MILLISECONDS);
      most = std::max(most, world.reruns.size());
      if (!world.quorum()) ADD_FAILURE() << "the restarts have cost the quorum";
    }
    return has(n1, "7") && has(n2, "7") && has(n3, "7");
  }));
  EXPECT_EQ(most, 1u);
  EXPECT_TRUE(world.eventually(kPatience, [&] { return n1.message.empty(); })) << n1.message;
}

// Catches: a member that restarts though the others have no quorum without it, or says nothing.
TEST_F(Membership, AMemberThatIsNeededWaitsAndSaysSo) {
  formed();
  world.powerOff(n3);
  world.pass(10 * kj::SECONDS);
  change(n1, "7");
  EXPECT_TRUE(world.eventually(kPatience, [&] {
    return says(n1,
                "etcd is to be restarted, because the config has changed, and waits: etcd has "
                "3 voters (n1, n2, n3); n3 (");
  })) << n1.message;
  world.pass(2 * kj::MINUTES);
  EXPECT_FALSE(has(n1, "7"));
  EXPECT_TRUE(n1.serves());
  world.powerOn(n3);
  EXPECT_TRUE(world.eventually(kPatience, [&] { return has(n1, "7"); })) << n1.message;
  EXPECT_TRUE(world.eventually(kPatience, [&] { return n1.message.empty(); })) << n1.message;
}

// Catches: a refused turn whose locks stay taken, so that the node which would end the wait stands
// in line behind two that want nothing.
TEST_F(Membership, ARefusedTurnKeepsNobodyWaiting) {
  world.powerOn(n1);
  world.powerOn(n2);
  world.pass(5 * kj::SECONDS);
  bootstrap(world, n1, {"10.0.0.3"});
  ASSERT_TRUE(world.eventually(kPatience, [&] { return world.votes(n1) && world.votes(n2); }));
  world.pass(10 * kj::SECONDS);
  for (auto node : {&n1, &n2}) change(*node, "7");
  ASSERT_TRUE(world.eventually(
      kPatience, [&] { return says(n1, "is to be restarted") && says(n2, "is to be restarted"); }));
  world.powerOn(n3);
  EXPECT_TRUE(world.eventually(30 * kj::SECONDS, [&] { return world.votes(n3); })) << n3.message;
  EXPECT_TRUE(world.eventually(kPatience, [&] { return has(n1, "7") && has(n2, "7"); }));
}

// Catches: a message that stays when there is nothing to wait for.
TEST_F(Membership, AChangeThatIsTakenBackWaitsForNothing) {
  formed();
  world.powerOff(n3);
  world.pass(10 * kj::SECONDS);
  change(n1, "7");
  ASSERT_TRUE(world.eventually(kPatience, [&] { return says(n1, "is to be restarted"); }));
  n1.config.extraArgs.clear();
  n1.wake();
  EXPECT_TRUE(world.eventually(kPatience, [&] { return n1.message.empty(); })) << n1.message;
}

TEST_F(Membership, TheOnlyMemberRestartsAtOnce) {
  world.powerOn(n1);
  world.pass(5 * kj::SECONDS);
  bootstrap(world, n1, {"10.0.0.2", "10.0.0.3"});
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
  change(n1, "7");
  EXPECT_TRUE(world.eventually(30 * kj::SECONDS, [&] { return has(n1, "7"); }));
}

// Catches: a restart beside a removal of another member, or a reboot, which were each allowed
// alone.
TEST_F(Membership, NobodyRestartsWhileAnotherIsAwayForAReboot) {
  formed();
  withdraw(world, n2, Going::kRestarts);
  EXPECT_EQ(outcome(), "n2 withdraw: done");
  change(n1, "7");
  EXPECT_TRUE(world.eventually(kPatience, [&] {
    return says(n1, "waiting until n2 has restarted");
  })) << n1.message;
  world.pass(30 * kj::SECONDS);
  EXPECT_FALSE(has(n1, "7"));
  EXPECT_TRUE(world.eventually(2 * kPatience, [&] { return has(n1, "7"); })) << n1.message;
}

// Catches: a turn that dies with who gave it, and a second one beside it.
TEST(Reruns, NeverCostTheQuorumWhoeverDies) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Quiet quiet;
    World world(seed, 3 + seed % 3);
    for (auto& node : world.nodes) world.powerOn(*node);
    world.pass(5 * kj::SECONDS);
    bootstrap(world, *world.nodes[0]);
    ASSERT_TRUE(world.eventually(2 * kPatience, [&] {
      for (auto& node : world.nodes) {
        if (!world.votes(*node) || node->status.phase != "member") return false;
      }
      return true;
    })) << seed;
    world.pass(10 * kj::SECONDS);
    unsigned lost = 0;
    for (unsigned round = 0; round < 200; ++round) {
      auto& node = *world.nodes[world.pick(static_cast<unsigned>(world.nodes.size()))];
      if (round < 100 && world.chance() < 0.2) change(node, kj::str(round / 50));
      if (round < 100 && world.chance() < 0.1) world.crash(node);
      for (unsigned i = 0; i < 20; ++i) {
        world.pass(50 * kj::MILLISECONDS);
        lost += world.quorum() ? 0 : 1;
      }
    }
    EXPECT_EQ(lost, 0u) << "schedule " << seed;
    for (auto& node : world.nodes) change(*node, "9");
    EXPECT_TRUE(world.eventually(4 * kPatience, [&] {
      for (auto& node : world.nodes) {
        if (!has(*node, "9")) return false;
      }
      return true;
    })) << seed;
    for (auto& what : world.violations) ADD_FAILURE() << what << ", schedule " << seed;
  }
}

}  // namespace
}  // namespace talos::supervisor
