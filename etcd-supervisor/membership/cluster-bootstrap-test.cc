// Bootstrap, on a model of everything that membership stands on (test-membership-bed.h).
#include "etcd-supervisor/membership/test-operator-calls.h"

namespace talos::supervisor {
namespace {

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
            "n1 bootstrap: cannot do without 10.0.0.4: this node would not ask it; it would ask "
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

// --- a snapshot that cannot be unpacked ---

// Catches: a call that waits for what never comes; a node that cannot be told anything any more.
TEST_F(Membership, ASnapshotThatCannotBeUnpackedEndsTheCallAndNothingElse) {
  boot();
  world.pass(5 * kj::SECONDS);
  world.unpackFails = true;
  recover(world, n1);
  EXPECT_EQ(outcome(),
            "n1 recover: cannot restore the snapshot: etcdutl: fault; nothing was changed, and "
            "another one can be tried");
  EXPECT_TRUE(world.eventually(kPatience, [&] { return n1.status.phase == "waiting"; }));
  EXPECT_EQ(n1.disk.intent.state, Intent::State::kNone);
  EXPECT_EQ(n1.disk.data, Data::kNone);
  EXPECT_TRUE(world.clusters.empty());
  recover(world, n1);
  EXPECT_NE(outcome().find("etcdutl: fault"), std::string::npos);
  world.unpackFails = false;
  recover(world, n1);
  EXPECT_EQ(outcome(), "n1 recover: done");
  EXPECT_TRUE(world.eventually(kPatience, [&] { return all(); }));
}

// Catches: a claim that is given up while machined may still unpack the snapshot, and start etcd.
TEST_F(Membership, AClaimOutlivesTheWishForItsSnapshot) {
  boot();
  world.pass(5 * kj::SECONDS);
  world.unpackFails = true;
  recover(world, n1);
  auto wishes = [&] {
    return n1.wanted.map([](Wanted& wanted) { return wanted.recoverFrom.size(); }).orDefault(0) > 0;
  };
  auto until = world.timer.now() + kPatience;
  while (!wishes()) {
    ASSERT_LT(world.timer.now(), until);
    world.pass(1 * kj::MILLISECONDS);
  }
  n1.storeFails = true;
  world.pass(20 * kj::SECONDS);
  bootstrap(world, n2);
  world.pass(2 * kj::SECONDS);
  world.unpackFails = false;  // what was wrong was the space
  EXPECT_TRUE(world.eventually(kPatience, [&] { return all() || world.clusters.size() > 1; }));
  EXPECT_EQ(world.clusters.size(), 1u);
  n1.storeFails = false;
}

// Catches: a claim that is given up while something may still make the cluster by it, and one that
// stays for ever because the disk did not take its end.
TEST(Recovery, ThatFailsMakesNoClusterWhoeverDies) {
  unsigned failed = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    Quiet quiet;
    World world(seed, 2);
    for (auto& node : world.nodes) world.powerOn(*node);
    world.pass(5 * kj::SECONDS);
    world.unpackFails = true;
    world.crashes = world.failures = 0.2;
    recover(world, *world.nodes[0]);
    for (int i = 0; i < 30; ++i) {
      world.pass(1 * kj::SECONDS);
      if (world.chance() < 0.1) world.crash(*world.nodes[0]);
    }
    world.crashes = world.failures = 0;
    world.eventually(5 * kj::MINUTES, [&] { return world.pending == 0; });
    for (auto& outcome : world.outcomes) failed += outcome.find("fault") != std::string::npos;
    world.pass(1 * kj::MINUTES);
    EXPECT_TRUE(world.clusters.empty()) << seed;
    EXPECT_EQ(world.nodes[0]->status.phase, "waiting") << seed;
    // The disk is good now, and the other one is told.
    world.unpackFails = false;
    bootstrap(world, *world.nodes[1]);
    EXPECT_TRUE(world.eventually(kPatience, [&] {
      return world.votes(*world.nodes[0]) && world.votes(*world.nodes[1]);
    })) << seed;
    for (auto& what : world.violations) ADD_FAILURE() << what << ", schedule " << seed;
  }
  EXPECT_GT(failed, 5u);
}

// --- nodes whose configs do not name each other ---

class Strangers : public testing::Test {
 protected:
  Quiet quiet;
  World world{1, 2, World::Knowing::kStrangers};
  Node& n1 = *world.nodes[0];
  Node& n2 = *world.nodes[1];

  Strangers() {
    for (auto& node : world.nodes) {
      node->config.shared.clear();
      world.powerOn(*node);
    }
    world.pass(5 * kj::SECONDS);
  }
  void tell(Node& node, std::vector<std::string> talosconfig,
            std::vector<std::string> without = {}) {
    world.talosconfig = std::move(talosconfig);
    bootstrap(world, node, std::move(without));
  }
  std::string outcome() {
    EXPECT_TRUE(world.eventually(kPatience, [&] { return world.pending == 0; }));
    return world.outcomes.empty() ? "none" : world.outcomes.back();
  }
  bool both() { return world.votes(n1) && world.votes(n2); }

  ~Strangers() noexcept override {
    for (auto& what : world.violations) ADD_FAILURE() << what;
  }
};

// Catches: a node that is named by the talosconfig alone and is not asked; one that is refused with
// the promise that it joins by itself, and never hears of the cluster again.
TEST_F(Strangers, WhomTheTalosconfigNamesIsAskedAndJoined) {
  tell(n2, {});
  EXPECT_EQ(outcome(), "n2 bootstrap: done");
  tell(n1, {"10.0.0.1", "10.0.0.2"});
  EXPECT_EQ(outcome(),
            "n1 bootstrap: n2 (10.0.0.2) has a cluster already; this node joins it by itself");
  EXPECT_TRUE(world.eventually(kPatience, [&] { return both(); }));
  EXPECT_EQ(world.clusters.size(), 1u);
  EXPECT_TRUE(n1.disk.intent.heardOf.empty()) << "a voter needs them no more";
}

// Catches: a node that never finds the cluster of which only Kubernetes has told it; one that does
// not make the first cluster because Kubernetes of an earlier one has told it of somebody.
TEST_F(Strangers, WhoIsKnownToKubernetesIsJoined) {
  for (auto& node : world.nodes) node->config.shared.clear();
  n2.kubernetesNodes = {"10.0.0.1", "10.0.0.77"};
  tell(n2, {});
  EXPECT_EQ(outcome(), "n2 bootstrap: done");
  world.pass(2 * kj::MINUTES);
  EXPECT_FALSE(both()) << "somebody else has told the other one";
  n1.kubernetesNodes = {"10.0.0.1", "10.0.0.2"};
  n1.wake();
  EXPECT_TRUE(world.eventually(kPatience, [&] { return both(); }));
  EXPECT_EQ(world.clusters.size(), 1u);
}

// Catches: a node that forgets who has asked it, at once or with its next start.
TEST_F(Strangers, WhoAskedIsAskedBack) {
  auto until = world.timer.now() + kPatience;
  tell(n1, {"10.0.0.2"});
  while (n2.disk.intent.heardOf.empty()) {
    ASSERT_LT(world.timer.now(), until);
    world.pass(1 * kj::MILLISECONDS);
  }
  EXPECT_EQ(n2.disk.intent.heardOf[0], "10.0.0.1");
  world.powerOff(n2);
  world.powerOn(n2);
  world.pass(3 * kj::SECONDS);
  tell(n2, {});
  world.eventually(kPatience, [&] { return world.pending == 0; });
  EXPECT_EQ(world.clusters.size(), 1u);
  EXPECT_TRUE(world.eventually(kPatience, [&] { return both(); }));
}

// Catches: the one that asked, and made nothing, blocks the one that was asked for ever.
TEST_F(Strangers, WhoAskedAndIsGoneCanBeLeftOut) {
  tell(n1, {"10.0.0.2", "10.0.0.9"});
  EXPECT_EQ(outcome(),
            "n1 bootstrap: no answer from 10.0.0.9 (connection refused); a node that cannot be "
            "asked may have a cluster: start it, or, if it has none, leave it out with talosctl "
            "bootstrap --without");
  world.powerOff(n1);
  tell(n2, {});
  EXPECT_EQ(outcome().substr(0, 34), "n2 bootstrap: no answer from 10.0.");
  tell(n2, {}, {"10.0.0.1"});
  EXPECT_EQ(outcome(), "n2 bootstrap: done");
}

TEST_F(Strangers, ANodeOfTheTalosconfigIsLeftOutAsOneOfTheConfig) {
  tell(n1, {"10.0.0.2", "10.0.0.9"}, {"10.0.0.8"});
  EXPECT_EQ(outcome(),
            "n1 bootstrap: cannot do without 10.0.0.8: this node would not ask it; it would ask "
            "10.0.0.2, 10.0.0.9");
  tell(n1, {"10.0.0.2", "10.0.0.9"}, {"10.0.0.9"});
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
}

// Catches: a node that waits for itself, or for an address that nobody has before there is etcd.
TEST_F(Strangers, OwnAndSharedAddressesOfTheTalosconfigAreNoObstacle) {
  n1.config.shared.add(kj::str(kSharedAddress));
  tell(n1, {"10.0.0.1", "127.0.8.2", "::1", "n1", "::ffff:10.0.0.1", "10.0.0.100", "10.0.0.2"});
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
}

// Catches: consent that a power cut takes back.
TEST_F(Strangers, WhoCannotKeepTheAskerDoesNotConsent) {
  world.failures = 1;
  tell(n1, {"10.0.0.2"});
  world.pass(10 * kj::SECONDS);
  EXPECT_EQ(world.clusters.size(), 0u);
  world.failures = 0;
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
}

}  // namespace
}  // namespace talos::supervisor
