// Membership as a whole, on a model of everything that it stands on (test-world.h): stories of
// single operations, and random schedules of everything that people and machines do to it.
#include <stdlib.h>

#include "etcd-supervisor/membership/test-world.h"

namespace talos::supervisor {
namespace {

constexpr auto kPatience = 5 * kj::MINUTES;

void bootstrap(World& world, Node& node, std::vector<std::string> without = {},
               kj::Duration patience = 60 * kj::SECONDS) {
  world.ask<bool>(node, "bootstrap", [without, patience](Keeper& keeper) {
    BootstrapRequest request;
    kj::Vector<kj::String> hosts;
    for (auto& host : without) hosts.add(kj::str(host.c_str()));
    request.without = hosts.releaseAsArray();
    request.patience = patience;
    return keeper.bootstrap(kj::mv(request));
  });
}
void leave(World& world, Node& node, bool force = false) {
  world.ask<void>(node, "leave", [force](Keeper& keeper) { return keeper.leave(force); });
}
void withdraw(World& world, Node& node, Going going, bool force = false) {
  world.ask<void>(node, "withdraw", [=](Keeper& keeper) { return keeper.withdraw(going, force); });
}
// What a node says of its going.
void lookOut(World& world, Node& node, Going going) {
  world.ask<void>(node, "outlook", [=](Keeper& keeper) {
    return keeper.outlook(going).then([](Outlook&& outlook) {
      KJ_IF_MAYBE (why, outlook.objection) fail(ErrorKind::kFailedPrecondition, *why);
    });
  });
}
void removeMember(World& world, Node& node, const Node& other, bool force = false) {
  world.ask<void>(node, kj::str("remove ", other.config.name),
                  [name = kj::str(other.config.name), force](Keeper& keeper) {
                    return keeper.removeMember(kj::str(name), force);
                  });
}

class Membership : public testing::Test {
 protected:
  Quiet quiet;
  World world{1, 3};
  Node& n1 = *world.nodes[0];
  Node& n2 = *world.nodes[1];
  Node& n3 = *world.nodes[2];

  void boot() {
    for (auto& node : world.nodes) world.powerOn(*node);
  }
  bool all() {
    return world.votes(n1) && world.votes(n2) && world.votes(n3) && n1.status.phase == "member" &&
           n2.status.phase == "member" && n3.status.phase == "member";
  }
  void formed() {
    boot();
    world.pass(5 * kj::SECONDS);
    bootstrap(world, n1);
    ASSERT_TRUE(world.eventually(kPatience, [&] { return all(); }));
    world.outcomes.clear();
    // The model's etcd, like the real one, counts a member after it was up for a while.
    world.pass(10 * kj::SECONDS);
  }
  std::string outcome() {
    EXPECT_TRUE(world.eventually(kPatience, [&] { return world.pending == 0; }));
    return world.outcomes.empty() ? "none" : world.outcomes.back();
  }

  ~Membership() noexcept override {
    for (auto& what : world.violations) ADD_FAILURE() << what;
  }
};

TEST_F(Membership, WaitsUntilItIsToldAndThenEverybodyVotes) {
  boot();
  world.pass(60 * kj::SECONDS);
  EXPECT_EQ(world.clusters.size(), 0u);
  EXPECT_EQ(n1.status.phase, "waiting");
  EXPECT_EQ(n1.message,
            "waiting for a cluster: run talosctl bootstrap on one control-plane node, unless that "
            "was done");
  bootstrap(world, n2);
  EXPECT_EQ(outcome(), "n2 bootstrap: done");
  EXPECT_TRUE(world.eventually(kPatience, [&] { return all(); }));
  EXPECT_EQ(world.clusters.size(), 1u);
}

TEST_F(Membership, TwiceOnOneNodeIsDoneAndOnAnotherRefused) {
  formed();
  bootstrap(world, n1);
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
  world.reinstall(n3);
  world.cuts.insert({&n3, &n1});
  bootstrap(world, n3);
  EXPECT_EQ(outcome(),
            "n3 bootstrap: n2 (10.0.0.2) has a cluster already; this node joins it by itself");
}

TEST_F(Membership, AtOnceOnAllNodesMakesOneCluster) {
  boot();
  world.pass(5 * kj::SECONDS);
  for (auto& node : world.nodes) bootstrap(world, *node);
  EXPECT_TRUE(world.eventually(15 * kj::SECONDS, [&] { return world.clusters.size() == 1; }));
  EXPECT_TRUE(world.eventually(kPatience, [&] { return all() && world.pending == 0; }));
  EXPECT_EQ(world.clusters.size(), 1u);
  std::set<std::string> outcomes(world.outcomes.begin(), world.outcomes.end());
  std::set<std::string> expected = {
      "n1 bootstrap: done",
      "n2 bootstrap: n1 (10.0.0.1) was told the same and goes first; this node will join it",
      "n3 bootstrap: n1 (10.0.0.1) was told the same and goes first; this node will join it"};
  EXPECT_EQ(outcomes, expected);
}

// n2 has asked n1 when n1 had not claimed yet, and may still make the cluster.
TEST_F(Membership, WhoGoesFirstWaitsUntilTheOtherHasGivenWay) {
  boot();
  world.pass(5 * kj::SECONDS);
  world.slow[&n3] = 4 * kj::SECONDS;
  bootstrap(world, n2);
  world.pass(1 * kj::SECONDS);
  bootstrap(world, n1);
  EXPECT_TRUE(world.eventually(kPatience, [&] { return all() && world.pending == 0; }));
  EXPECT_EQ(world.clusters.size(), 1u);
}

TEST_F(Membership, NodeThatDoesNotAnswerIsNamedAndCanBeLeftOut) {
  world.powerOn(n1);
  world.powerOn(n2);
  world.pass(5 * kj::SECONDS);
  bootstrap(world, n1);
  EXPECT_EQ(outcome(),
            "n1 bootstrap: no answer from 10.0.0.3 (connection refused); a node that cannot be "
            "asked may have a cluster: start it, or, if it has none, leave it out with talosctl "
            "bootstrap --without");
  bootstrap(world, n1, {"10.0.0.4"});
  EXPECT_EQ(outcome(),
            "n1 bootstrap: cannot do without 10.0.0.4: the config does not name it; it names "
            "10.0.0.2, 10.0.0.3");
  EXPECT_EQ(world.clusters.size(), 0u);
  bootstrap(world, n1, {"10.0.0.3"});
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
}

TEST_F(Membership, IntentToMakeSurvivesADeathAndKeepsOthersAway) {
  boot();
  world.pass(5 * kj::SECONDS);
  bootstrap(world, n1);
  auto until = world.timer.now() + kPatience;
  while (n1.disk.intent.state != Intent::State::kMakes) {
    ASSERT_LT(world.timer.now(), until);
    world.pass(1 * kj::MILLISECONDS);
  }
  ASSERT_EQ(n1.disk.data, Data::kNone);
  world.crash(n1);
  world.outcomes.clear();
  bootstrap(world, n2);
  EXPECT_NE(outcome().find("n2 bootstrap: "), std::string::npos);
  EXPECT_EQ(world.outcomes.back().find("done"), std::string::npos) << world.outcomes.back();
  EXPECT_TRUE(world.eventually(kPatience, [&] { return all(); }));
  EXPECT_EQ(n1.disk.intent.state, Intent::State::kNone);
}

TEST_F(Membership, IntentThatIsOnDiskCountsThoughItsWriteFailed) {
  boot();
  world.pass(5 * kj::SECONDS);
  n1.failsLate = true;
  bootstrap(world, n1);
  EXPECT_EQ(outcome(), "n1 bootstrap: the disk is full");
  n1.failsLate = false;
  bootstrap(world, n2);
  EXPECT_EQ(outcome().find("done"), std::string::npos) << world.outcomes.back();
  world.crash(n1);
  EXPECT_TRUE(world.eventually(kPatience, [&] { return all(); }));
}

TEST_F(Membership, InitNodeMakesTheClusterByItselfAndJoinsItWhenReinstalled) {
  n1.config.bootstraps = true;
  boot();
  ASSERT_TRUE(world.eventually(kPatience, [&] { return all(); }));
  world.reinstall(n1);
  EXPECT_FALSE(world.votes(n1));
  EXPECT_TRUE(world.eventually(kPatience, [&] { return all(); }));
  EXPECT_EQ(world.clusters.size(), 1u);
  EXPECT_EQ(world.clusters[0]->members.size(), 3u);
}

TEST_F(Membership, LeavesAndJoinsAgainAfterTheNextBootOnly) {
  formed();
  leave(world, n1);  // the leader
  EXPECT_EQ(outcome(), "n1 leave: done");
  EXPECT_EQ(n1.disk.data, Data::kNone);
  EXPECT_EQ(world.clusters[0]->members.size(), 2u);
  EXPECT_TRUE(world.quorum());
  world.crash(n1);
  world.pass(2 * kj::MINUTES);
  EXPECT_EQ(n1.status.phase, "left");
  EXPECT_EQ(world.clusters[0]->members.size(), 2u);
  world.powerOff(n1);
  world.powerOn(n1);
  EXPECT_TRUE(world.eventually(kPatience, [&] { return all(); }));
}

// Catches: a node that stays a member because the others have known each other for a moment only.
TEST_F(Membership, LeavesWhenEtcdTakesChangesAgain) {
  formed();
  auto& members = world.clusters[0]->members;
  for (auto& item : members) item.second.aliveSince = world.timer.now();
  auto begun = world.timer.now();
  leave(world, n3);
  EXPECT_EQ(outcome(), "n3 leave: done");
  EXPECT_GT(world.timer.now() - begun, 3 * kj::SECONDS) << "the model does not refuse it at once";
  EXPECT_EQ(members.size(), 2u);
  for (auto& item : members) item.second.aliveSince = world.timer.now();
  removeMember(world, n1, n2);
  EXPECT_EQ(outcome(), "n1 remove n2: done");
  EXPECT_EQ(members.size(), 1u);
}

TEST_F(Membership, WhatWouldCostTheQuorumIsRefusedUnlessForced) {
  formed();
  world.powerOff(n3);
  world.pass(10 * kj::SECONDS);
  leave(world, n2);
  EXPECT_EQ(outcome(),
            "n2 leave: the cluster would lose its quorum: of the 2 voters that would be left only "
            "1 answers, and 2 must; no answer from n3; start those members, remove them first, or "
            "use --force");
  removeMember(world, n1, n2);
  EXPECT_NE(outcome().find("would lose its quorum"), std::string::npos) << world.outcomes.back();
  EXPECT_EQ(world.clusters[0]->members.size(), 3u);
  removeMember(world, n1, n3);
  EXPECT_EQ(outcome(), "n1 remove n3: done");
  EXPECT_EQ(world.clusters[0]->members.size(), 2u);
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
  world.powerOff(n3);
  world.pass(10 * kj::SECONDS);
  lookOut(world, n2, Going::kLeaves);
  EXPECT_EQ(outcome(), kj::str("n2 outlook: ", kOneIsOff).cStr());
  withdraw(world, n2, Going::kLeaves);
  EXPECT_EQ(outcome(), kj::str("n2 withdraw: ", kOneIsOff).cStr());
  EXPECT_EQ(n2.disk.intent.state, Intent::State::kNone);
  EXPECT_TRUE(n2.holds);
  EXPECT_EQ(world.clusters[0]->members.size(), 3u);

  world.powerOn(n3);
  ASSERT_TRUE(world.eventually(kPatience, [&] { return all(); }));
  world.pass(10 * kj::SECONDS);
  for (auto going : {Going::kLeaves, Going::kRejoins, Going::kRestarts}) {
    lookOut(world, n2, going);
    EXPECT_EQ(outcome(), "n2 outlook: done");
  }
  withdraw(world, n2, Going::kLeaves);
  EXPECT_EQ(outcome(), "n2 withdraw: done");
  EXPECT_FALSE(n2.holds);
  EXPECT_EQ(world.clusters[0]->members.size(), 2u);
  withdraw(world, n2, Going::kLeaves);
  EXPECT_EQ(outcome(), "n2 withdraw: done");

  // One of two may leave, and is not away while the other one needs it.
  lookOut(world, n1, Going::kRestarts);
  EXPECT_NE(outcome().find("while this node restarts there would be no quorum"), std::string::npos);
  world.powerOff(n3);
  world.pass(10 * kj::SECONDS);
  lookOut(world, n1, Going::kLeaves);
  EXPECT_NE(outcome().find("n1 outlook: etcd has 2 voters (n1, n3); "), std::string::npos)
      << world.outcomes.back();
  withdraw(world, n1, Going::kLeaves);
  EXPECT_NE(outcome().find("no member answers: "), std::string::npos) << world.outcomes.back();
  EXPECT_EQ(world.clusters[0]->members.size(), 2u);
}

// Catches: two nodes that restart at the same time, each of which the others could do without; a
// turn that is kept for ever by one that never restarts.
TEST_F(Membership, RestartsTakeTurns) {
  formed();
  withdraw(world, n1, Going::kRestarts);
  EXPECT_EQ(outcome(), "n1 withdraw: done");
  withdraw(world, n2, Going::kRestarts);
  world.pass(30 * kj::SECONDS);
  EXPECT_EQ(world.pending, 1u) << "it is the turn of n1";
  world.powerOff(n1);
  EXPECT_NE(outcome().find("n2 withdraw: "), std::string::npos);
  EXPECT_EQ(outcome().find("done"), std::string::npos) << world.outcomes.back();
  withdraw(world, n2, Going::kRestarts);
  EXPECT_NE(outcome().find("n1 (etcd at 10.0.0.1:2379: Connection refused) is not healthy"),
            std::string::npos)
      << world.outcomes.back();
  world.powerOn(n1);
  ASSERT_TRUE(world.eventually(kPatience, [&] { return all(); }));
  withdraw(world, n2, Going::kRestarts);
  EXPECT_EQ(outcome(), "n2 withdraw: done");

  world.pass(6 * kj::MINUTES);
  withdraw(world, n3, Going::kRestarts);
  EXPECT_EQ(outcome(), "n3 withdraw: done");
}

// Catches: a wait without an end for an address that nobody gives up.
TEST_F(Membership, AnAddressThatIsNotGivenUpIsLeftToItsLease) {
  formed();
  n3.vipdHangs = true;
  auto begun = world.timer.now();
  leave(world, n3);
  EXPECT_TRUE(world.eventually(30 * kj::SECONDS, [&] { return world.pending == 0; }));
  EXPECT_EQ(outcome(), "n3 leave: done");
  EXPECT_GE(world.timer.now() - begun, 8 * kj::SECONDS);
  EXPECT_TRUE(n3.holds);
}

// Catches: a node that counts as healthy because it answers, and cannot read what the others have.
TEST_F(Membership, AMemberThatIsCutOffFromTheOthersIsIll) {
  formed();
  n3.cutOff = true;
  lookOut(world, n1, Going::kRestarts);
  EXPECT_NE(outcome().find("n3 (etcd at 10.0.0.3:2379: etcdserver: no leader) is not healthy"),
            std::string::npos)
      << world.outcomes.back();
}

TEST_F(Membership, OnlyVoterDoesNotLeave) {
  world.powerOn(n1);
  world.pass(5 * kj::SECONDS);
  bootstrap(world, n1, {"10.0.0.2", "10.0.0.3"});
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
  for (bool force : {false, true}) {
    leave(world, n1, force);
    EXPECT_EQ(outcome(),
              "n1 leave: this is the only voting member: its cluster ends with it; erase it with "
              "talosctl reset --graceful=false");
  }
  withdraw(world, n1, Going::kLeaves);
  EXPECT_EQ(outcome(),
            "n1 withdraw: etcd has 1 voter (n1); this node is the only one: the cluster, and all "
            "of its data, would end with it");
  withdraw(world, n1, Going::kRejoins, true);
  EXPECT_NE(outcome().find("this is the only voting member"), std::string::npos);
  lookOut(world, n1, Going::kRestarts);
  EXPECT_EQ(outcome(), "n1 outlook: done");
}

// Catches: a node without a cluster that cannot be reset.
TEST_F(Membership, NodeInNoClusterHasNothingToLeave) {
  world.powerOn(n1);
  world.pass(5 * kj::SECONDS);
  for (auto going : {Going::kLeaves, Going::kRejoins, Going::kRestarts}) {
    lookOut(world, n1, going);
    EXPECT_EQ(outcome(), "n1 outlook: done");
    withdraw(world, n1, going);
    EXPECT_EQ(outcome(), "n1 withdraw: done");
  }
}

TEST_F(Membership, NodeThatOthersRemovedSaysSoAndKeepsItsData) {
  formed();
  removeMember(world, n1, n3);
  EXPECT_EQ(outcome(), "n1 remove n3: done");
  EXPECT_TRUE(world.eventually(kPatience, [&] {
    return n3.message ==
           "the other members have removed this one; run talosctl etcd leave on this node, and "
           "reboot it to join again";
  })) << n3.message;
  EXPECT_EQ(n3.disk.data, Data::kWhole);
  leave(world, n3);
  EXPECT_EQ(outcome(), "n3 leave: done");
  EXPECT_EQ(n3.disk.data, Data::kNone);
  removeMember(world, n1, n1);
  EXPECT_EQ(outcome(), "n1 remove n1: \"n1\" is this node; use talosctl etcd leave");
  removeMember(world, n1, n3);
  EXPECT_NE(outcome().find("the cluster has no member \"n3\"; it has "), std::string::npos);
}

TEST_F(Membership, DeathBetweenTheRemovalAndItsRecordIsSettledByTheOthers) {
  formed();
  for (bool removed : {false, true}) {
    SCOPED_TRACE(removed);
    world.crash(n3);
    n3.disk.intent.state = Intent::State::kLeaves;
    n3.disk.intent.member = n3.disk.member;
    if (removed) world.clusters[0]->members.erase(n3.disk.member);
    EXPECT_TRUE(world.eventually(kPatience, [&] {
      return removed ? n3.disk.data == Data::kNone && n3.status.phase == "left"
                     : all() && n3.disk.intent.state == Intent::State::kNone;
    }));
  }
}

TEST_F(Membership, DeathWhileItLeavesIsTakenUpAgain) {
  formed();
  leave(world, n3);
  auto until = world.timer.now() + kPatience;
  while (n3.disk.intent.state != Intent::State::kLeaves) {
    ASSERT_LT(world.timer.now(), until) << testing::PrintToString(world.outcomes);
    world.pass(1 * kj::MILLISECONDS);
  }
  world.crash(n3);  // what it has asked the cluster for is under way
  EXPECT_TRUE(world.eventually(kPatience, [&] { return n3.status.phase == "left"; }));
  EXPECT_TRUE(world.eventually(kPatience, [&] { return n3.disk.data == Data::kNone; }));
  EXPECT_EQ(world.clusters[0]->members.size(), 2u);
}

TEST_F(Membership, LogOfEtcdThatIsGoneMakesNoNewCluster) {
  formed();
  world.powerOff(n3);
  n3.disk.data = Data::kPartial;
  world.powerOn(n3);
  world.pass(2 * kj::MINUTES);
  EXPECT_EQ(world.clusters.size(), 1u);
  EXPECT_FALSE(n3.running);
  bootstrap(world, n3);
  EXPECT_EQ(outcome(),
            "n3 bootstrap: the data directory /var/lib/etcd is not empty; etcd makes no "
            "new cluster over what is there");
}

TEST_F(Membership, LeadershipGoesToAnotherVoter) {
  formed();
  auto leader = world.clusters[0]->leader;
  Node* leads = nullptr;
  for (auto& node : world.nodes) {
    if (node->disk.member == leader) leads = node.get();
  }
  ASSERT_NE(leads, nullptr);
  world.ask<kj::String>(*leads, "forfeit",
                        [](Keeper& keeper) { return keeper.forfeitLeadership(); });
  EXPECT_NE(outcome().find("done"), std::string::npos);
  EXPECT_NE(world.clusters[0]->leader, leader);
}

// --- random schedules ---

// What happens next to some node, as people and machines do it. Two things people do not do: they
// erase no node without which there is no quorum, and none that is just making the cluster.
void something(World& world) {
  auto& node = *world.nodes[world.pick(static_cast<unsigned>(world.nodes.size()))];
  auto& other = *world.nodes[world.pick(static_cast<unsigned>(world.nodes.size()))];
  switch (world.pick(11)) {
    case 0:
    case 1:
      return bootstrap(world, node, {}, 20 * kj::SECONDS);
    case 2:
    case 3:
      return world.crash(node);
    case 4:
      world.powerOff(node);
      if (world.chance() < 0.8) world.powerOn(node);
      return;
    case 5:
      if (world.quorumWithout(node) && node.disk.intent.state != Intent::State::kMakes) {
        world.reinstall(node);
      }
      return;
    case 6:
      if (world.chance() < 0.5) return withdraw(world, node, Going::kLeaves);
      return leave(world, node);
    case 7:
      if (world.chance() < 0.3) removeMember(world, node, other);
      return;
    case 8:
      if (&node != &other) world.cuts.insert({&node, &other});
      return;
    case 9:
      world.cuts.clear();
      for (auto& one : world.nodes) {
        if (!one->on) world.powerOn(*one);
      }
      return;
    default:
      node.killed = true;
      node.changed.raise();
  }
}

// Empty: all is well at the end.
std::string endOf(World& world) {
  world.crashes = world.losses = world.failures = 0;
  world.cuts.clear();
  for (auto& node : world.nodes) {
    if (!node->on) world.powerOn(*node);
  }
  if (!world.eventually(15 * kj::MINUTES, [&] { return world.pending == 0; })) {
    return "an operation does not end";
  }
  bool formed = world.eventually(15 * kj::MINUTES, [&] {
    if (world.clusters.empty()) {
      if (world.pending == 0) bootstrap(world, *world.nodes[0]);
      return false;
    }
    // Who left, or was removed, joins when it is told to.
    for (auto& node : world.nodes) {
      bool removed = node->disk.data == Data::kWhole && !world.isMember(*node);
      if (removed && world.pending == 0) leave(world, *node);
      if (node->disk.intent.state == Intent::State::kLeft && world.pending == 0) {
        world.powerOff(*node);
        world.powerOn(*node);
      }
    }
    for (auto& node : world.nodes) {
      if (!world.votes(*node) || node->status.phase != "member") return false;
    }
    return world.clusters[0]->members.size() == world.nodes.size();
  });
  if (formed) return "";
  std::string how = "not everybody votes in the end:";
  for (auto& node : world.nodes) {
    how += kj::str(" ", node->config.name, " is ", node->status.phase, " (", node->message.c_str(),
                   ")")
               .cStr();
  }
  how += "; the last calls: ";
  for (size_t i = world.outcomes.size() > 4 ? world.outcomes.size() - 4 : 0;
       i < world.outcomes.size(); ++i) {
    how += world.outcomes[i] + "; ";
  }
  return how;
}

void schedules(unsigned from, unsigned count) {
  unsigned made = 0;
  for (unsigned seed = from; seed < from + count; ++seed) {
    std::string ending;
    std::vector<std::string> violations;
    {
      Quiet quiet;
      World world(seed, 2 + seed % 3);
      for (auto& node : world.nodes) world.powerOn(*node);
      world.crashes = 0.1;
      world.losses = 0.02;
      world.failures = 0.1;
      for (unsigned i = 0; i < 25; ++i) {
        world.pass(int64_t(world.chance() * (world.chance() < 0.5 ? 500 : 15000)) *
                   kj::MILLISECONDS);
        something(world);
      }
      if (!world.clusters.empty()) ++made;
      ending = endOf(world);
      violations = world.violations;
    }
    ASSERT_EQ(ending, "") << "schedule " << seed;
    for (auto& what : violations) FAIL() << what << ", schedule " << seed;
  }
  // Otherwise they show nothing.
  EXPECT_GT(made, count / 2);
}

// How many: $SCHEDULES, else few.
TEST(Schedules, NeverTwoClustersAndEverybodyVotesInTheEnd) {
  auto asked = getenv("SCHEDULES");
  auto from = getenv("SCHEDULES_FROM");
  schedules(from == nullptr ? 1 : static_cast<unsigned>(atoi(from)),
            asked == nullptr ? 60 : static_cast<unsigned>(atoi(asked)));
}

}  // namespace
}  // namespace talos::supervisor
