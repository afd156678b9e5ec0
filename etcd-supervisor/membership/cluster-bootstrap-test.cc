// Bootstrap, on a model of everything that membership stands on (test-membership-bed.h).
#include "etcd-supervisor/membership/test-operator-calls.h"

namespace talos::supervisor {
namespace {

TEST_F(Membership, WaitsForBootstrapAndThenEveryNodeVotes) {
  boot();
  bed.pass(60 * kj::SECONDS);
  EXPECT_EQ(bed.clusters.size(), 0u);
  EXPECT_EQ(n1.status.phase, "waiting");
  EXPECT_EQ(n1.message,
            "waiting for a cluster: run talosctl bootstrap on one control-plane node, unless that "
            "was done");
  bootstrap(bed, n2);
  EXPECT_EQ(outcome(), "n2 bootstrap: done");
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
  EXPECT_EQ(bed.clusters.size(), 1u);
}

TEST_F(Membership, TwiceOnOneNodeIsDoneAndOnAnotherRefused) {
  formed();
  bootstrap(bed, n1);
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
  bed.reinstall(n3);
  bed.cuts.insert({&n3, &n1});
  bootstrap(bed, n3);
  EXPECT_EQ(outcome(),
            "n3 bootstrap: n2 (10.0.0.2) has a cluster already; this node joins it by itself");
}

// Catches: a joining node that refuses its operator meanwhile. A node whose cluster has no quorum,
// and which has to be recovered, tries to join most of the time.
TEST_F(Membership, WhileItTriesToJoinItIsNotBusy) {
  formed();
  bed.reinstall(n3);
  for (auto node : {&n1, &n2}) bed.slow[node] = 3 * kj::SECONDS;
  for (unsigned i = 0; i < 30; ++i) {
    bootstrap(bed, n3);
    bed.pass(700 * kj::MILLISECONDS);
  }
  outcome();
  EXPECT_EQ(bed.outcomes.size(), 30u);
  for (auto& one : bed.outcomes) EXPECT_EQ(one.find("it joins"), std::string::npos) << one;
  bed.slow.clear();
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
}

TEST_F(Membership, AtOnceOnAllNodesMakesOneCluster) {
  boot();
  bed.pass(5 * kj::SECONDS);
  for (auto& node : bed.nodes) bootstrap(bed, *node);
  EXPECT_TRUE(bed.eventually(15 * kj::SECONDS, [&] { return bed.clusters.size() == 1; }));
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all() && bed.pending == 0; }));
  EXPECT_EQ(bed.clusters.size(), 1u);
  std::set<std::string> outcomes(bed.outcomes.begin(), bed.outcomes.end());
  std::set<std::string> expected = {
      "n1 bootstrap: done",
      "n2 bootstrap: n1 (10.0.0.1) was bootstrapped as well and goes first; this node will join it",
      "n3 bootstrap: n1 (10.0.0.1) was bootstrapped as well and goes first; this node will join "
      "it"};
  EXPECT_EQ(outcomes, expected);
}

// n2 has queried n1 before n1 claimed, and may still make the cluster.
TEST_F(Membership, FirstClaimantWaitsUntilTheOtherWithdraws) {
  boot();
  bed.pass(5 * kj::SECONDS);
  bed.slow[&n3] = 4 * kj::SECONDS;
  bootstrap(bed, n2);
  bed.pass(1 * kj::SECONDS);
  bootstrap(bed, n1);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all() && bed.pending == 0; }));
  EXPECT_EQ(bed.clusters.size(), 1u);
}

TEST_F(Membership, NodeThatDoesNotAnswerIsNamedAndCanBeLeftOut) {
  bed.powerOn(n1);
  bed.powerOn(n2);
  bed.pass(5 * kj::SECONDS);
  bootstrap(bed, n1);
  EXPECT_EQ(outcome(),
            "n1 bootstrap: no answer from 10.0.0.3 (connection refused); a node that cannot be "
            "asked may have a cluster: start it, or, if it has none, leave it out with talosctl "
            "bootstrap --without");
  bootstrap(bed, n1, {"10.0.0.4"});
  EXPECT_EQ(outcome(),
            "n1 bootstrap: cannot do without 10.0.0.4: this node would not ask it; it would ask "
            "10.0.0.2, 10.0.0.3");
  EXPECT_EQ(bed.clusters.size(), 0u);
  bootstrap(bed, n1, {"10.0.0.3"});
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
}

TEST_F(Membership, IntentToMakeSurvivesADeathAndKeepsOthersAway) {
  boot();
  bed.pass(5 * kj::SECONDS);
  bootstrap(bed, n1);
  auto until = bed.timer.now() + kTimeout;
  while (n1.disk.intent.state != Intent::State::kMakes) {
    ASSERT_LT(bed.timer.now(), until);
    bed.pass(1 * kj::MILLISECONDS);
  }
  ASSERT_EQ(n1.disk.data, Data::kNone);
  bed.crash(n1);
  bed.outcomes.clear();
  bootstrap(bed, n2);
  EXPECT_NE(outcome().find("n2 bootstrap: "), std::string::npos);
  EXPECT_EQ(bed.outcomes.back().find("done"), std::string::npos) << bed.outcomes.back();
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
  EXPECT_EQ(n1.disk.intent.state, Intent::State::kNone);
}

TEST_F(Membership, IntentThatIsOnDiskCountsThoughItsWriteFailed) {
  boot();
  bed.pass(5 * kj::SECONDS);
  n1.failsLate = true;
  bootstrap(bed, n1);
  EXPECT_EQ(outcome(), "n1 bootstrap: the disk is full");
  n1.failsLate = false;
  bootstrap(bed, n2);
  EXPECT_EQ(outcome().find("done"), std::string::npos) << bed.outcomes.back();
  bed.crash(n1);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
}

TEST_F(Membership, InitNodeMakesTheClusterByItselfAndJoinsItWhenReinstalled) {
  n1.config.bootstraps = true;
  boot();
  ASSERT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
  bed.reinstall(n1);
  EXPECT_FALSE(bed.votes(n1));
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
  EXPECT_EQ(bed.clusters.size(), 1u);
  EXPECT_EQ(bed.clusters[0]->members.size(), 3u);
}

// Catches: an init node that is installed again and makes a second cluster, because the shared
// address, the only one in its config, does not answer at its first look; an init node that waits
// for ever for nodes that do not exist yet.
TEST(InitNode, WaitsForTheSharedAddressBeforeItMakesACluster) {
  Quiet quiet;
  Testbed bed{1, 3, Testbed::Knowing::kStrangers};
  auto &n1 = *bed.nodes[0], &n2 = *bed.nodes[1], &n3 = *bed.nodes[2];
  auto all = [&] { return bed.votes(n1) && bed.votes(n2) && bed.votes(n3); };
  n1.config.bootstraps = true;
  n1.holds = true;
  for (auto* node : {&n1, &n2, &n3}) bed.powerOn(*node);
  ASSERT_TRUE(bed.eventually(kTimeout, all));
  n1.holds = false;
  n2.holds = true;
  bed.cuts = {{&n1, &n2}, {&n1, &n3}};
  bed.reinstall(n1);
  bed.pass(40 * kj::SECONDS);
  EXPECT_EQ(bed.clusters.size(), 1u);
  bed.cuts.clear();
  EXPECT_TRUE(bed.eventually(kTimeout, all));
  EXPECT_EQ(bed.clusters.size(), 1u);
  for (auto& what : bed.violations) ADD_FAILURE() << what;
}

// --- a snapshot that cannot be unpacked ---

// Catches: a call that waits for an event that never comes; a node that accepts no request any
// more; a status that forgets the cause with the next search for a cluster.
TEST_F(Membership, ASnapshotThatCannotBeUnpackedEndsTheCallAndNothingElse) {
  boot();
  bed.pass(5 * kj::SECONDS);
  bed.unpackFails = true;
  recover(bed, n1);
  EXPECT_EQ(outcome(),
            "n1 recover: cannot restore the snapshot: etcdutl: fault; nothing was changed, and "
            "another one can be tried");
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return n1.status.phase == "waiting"; }));
  EXPECT_EQ(n1.disk.intent.state, Intent::State::kNone);
  EXPECT_EQ(n1.disk.data, Data::kNone);
  EXPECT_TRUE(bed.clusters.empty());
  bed.pass(2 * kj::MINUTES);
  EXPECT_EQ(n1.message,
            "waiting for a cluster: run talosctl bootstrap on one control-plane node, unless that "
            "was done; cannot restore the snapshot: etcdutl: fault; nothing was changed, and "
            "another one can be tried");
  recover(bed, n1);
  EXPECT_NE(outcome().find("etcdutl: fault"), std::string::npos);
  bed.unpackFails = false;
  recover(bed, n1);
  EXPECT_EQ(outcome(), "n1 recover: done");
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
}

// Catches: a cluster of a snapshot that takes other nodes in, or whose bootstrap is answered, while
// the join tokens in it are still good.
TEST_F(Membership, NobodyJoinsBeforeARecoveryIsFollowedUp) {
  boot();
  bed.pass(5 * kj::SECONDS);
  bed.followUpFails = true;
  recover(bed, n1);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return n1.serves(); }));
  bed.pass(1 * kj::MINUTES);
  EXPECT_EQ(n1.disk.intent.state, Intent::State::kNone);
  EXPECT_TRUE(n1.disk.intent.recovers);
  EXPECT_EQ(bed.clusters[0]->members.size(), 1u);
  EXPECT_EQ(bed.pending, 1u) << "the bootstrap was answered";
  EXPECT_ANY_THROW(n1.process->reconciler.settledMember());
  bed.crash(n1);  // the next process knows it, too
  bed.pass(30 * kj::SECONDS);
  EXPECT_EQ(bed.clusters[0]->members.size(), 1u);
  bed.followUpFails = false;
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
  EXPECT_EQ(bed.followedUp, 1u);
  EXPECT_FALSE(n1.disk.intent.recovers);
  n1.process->reconciler.settledMember();
  for (auto& what : bed.violations) ADD_FAILURE() << what;
}

// Catches: a follow-up that a death of the program, or a write that failed, skips.
TEST(Recovery, IsFollowedUpWhoeverDies) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    Quiet quiet;
    Testbed bed(seed, 2);
    for (auto& node : bed.nodes) bed.powerOn(*node);
    bed.pass(5 * kj::SECONDS);
    bed.crashes = bed.failures = 0.2;
    for (int i = 0; i < 30; ++i) {
      if (bed.pending == 0 && bed.clusters.empty()) recover(bed, *bed.nodes[0]);
      bed.pass(1 * kj::SECONDS);
      if (bed.chance() < 0.1) bed.crash(*bed.nodes[0]);
    }
    bed.crashes = bed.failures = 0;
    bed.eventually(5 * kj::MINUTES, [&] { return bed.pending == 0; });
    if (bed.clusters.empty()) recover(bed, *bed.nodes[0]);
    EXPECT_TRUE(bed.eventually(kTimeout, [&] {
      return bed.votes(*bed.nodes[0]) && bed.votes(*bed.nodes[1]);
    })) << seed;
    EXPECT_GE(bed.followedUp, 1u) << seed;
    for (auto& what : bed.violations) ADD_FAILURE() << what << ", schedule " << seed;
  }
}

// Catches: a cluster without a snapshot that is taken for a recovered one.
TEST_F(Membership, ANewClusterIsNotFollowedUp) {
  formed();
  EXPECT_EQ(bed.followedUp, 0u);
}

// Catches: a claim that is given up while machined may still unpack the snapshot, and start etcd.
TEST_F(Membership, AClaimOutlivesTheRequestForItsSnapshot) {
  boot();
  bed.pass(5 * kj::SECONDS);
  bed.unpackFails = true;
  recover(bed, n1);
  auto recovers = [&] {
    return n1.wanted.map([](Wanted& wanted) { return wanted.recoverFrom.size(); }).orDefault(0) > 0;
  };
  auto until = bed.timer.now() + kTimeout;
  while (!recovers()) {
    ASSERT_LT(bed.timer.now(), until);
    bed.pass(1 * kj::MILLISECONDS);
  }
  n1.storeFails = true;
  bed.pass(20 * kj::SECONDS);
  bootstrap(bed, n2);
  bed.pass(2 * kj::SECONDS);
  bed.unpackFails = false;  // what was wrong was the space
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return all() || bed.clusters.size() > 1; }));
  EXPECT_EQ(bed.clusters.size(), 1u);
  n1.storeFails = false;
}

// Catches: a claim that ends while the cluster may still be made by it; a claim that stays for ever
// because the disk did not accept its end.
TEST(Recovery, ThatFailsMakesNoClusterWhoeverDies) {
  unsigned failed = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    Quiet quiet;
    Testbed bed(seed, 2);
    for (auto& node : bed.nodes) bed.powerOn(*node);
    bed.pass(5 * kj::SECONDS);
    bed.unpackFails = true;
    bed.crashes = bed.failures = 0.2;
    recover(bed, *bed.nodes[0]);
    for (int i = 0; i < 30; ++i) {
      bed.pass(1 * kj::SECONDS);
      if (bed.chance() < 0.1) bed.crash(*bed.nodes[0]);
    }
    bed.crashes = bed.failures = 0;
    bed.eventually(5 * kj::MINUTES, [&] { return bed.pending == 0; });
    for (auto& outcome : bed.outcomes) failed += outcome.find("fault") != std::string::npos;
    bed.pass(1 * kj::MINUTES);
    EXPECT_TRUE(bed.clusters.empty()) << seed;
    EXPECT_EQ(bed.nodes[0]->status.phase, "waiting") << seed;
    // The disk is good now, and the other one is bootstrapped.
    bed.unpackFails = false;
    bootstrap(bed, *bed.nodes[1]);
    EXPECT_TRUE(bed.eventually(kTimeout, [&] {
      return bed.votes(*bed.nodes[0]) && bed.votes(*bed.nodes[1]);
    })) << seed;
    for (auto& what : bed.violations) ADD_FAILURE() << what << ", schedule " << seed;
  }
  EXPECT_GT(failed, 5u);
}

// --- nodes whose configs do not name each other ---

class Strangers : public testing::Test {
 protected:
  Quiet quiet;
  Testbed bed{1, 2, Testbed::Knowing::kStrangers};
  Node& n1 = *bed.nodes[0];
  Node& n2 = *bed.nodes[1];

  Strangers() {
    for (auto& node : bed.nodes) {
      node->config.shared.clear();
      bed.powerOn(*node);
    }
    bed.pass(5 * kj::SECONDS);
  }
  void request(Node& node, std::vector<std::string> talosconfig,
               std::vector<std::string> without = {}) {
    bed.talosconfig = std::move(talosconfig);
    bootstrap(bed, node, std::move(without));
  }
  std::string outcome() {
    EXPECT_TRUE(bed.eventually(kTimeout, [&] { return bed.pending == 0; }));
    return bed.outcomes.empty() ? "none" : bed.outcomes.back();
  }
  bool both() { return bed.votes(n1) && bed.votes(n2); }

  ~Strangers() noexcept override {
    for (auto& what : bed.violations) ADD_FAILURE() << what;
  }
};

// Catches: a node that only the talosconfig names and that is not queried; a node that is refused
// with the promise that it joins by itself, and never learns of the cluster.
TEST_F(Strangers, NodeThatTheTalosconfigNamesIsJoined) {
  request(n2, {});
  EXPECT_EQ(outcome(), "n2 bootstrap: done");
  request(n1, {"10.0.0.1", "10.0.0.2"});
  EXPECT_EQ(outcome(),
            "n1 bootstrap: n2 (10.0.0.2) has a cluster already; this node joins it by itself");
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return both(); }));
  EXPECT_EQ(bed.clusters.size(), 1u);
  EXPECT_TRUE(n1.disk.intent.learnedPeers.empty()) << "a voter needs them no more";
}

// Catches: a node that never finds the cluster that only Kubernetes knows; a node that does not
// make the first cluster because Kubernetes of an earlier cluster knows other nodes.
TEST_F(Strangers, NodeThatKubernetesNamesIsJoined) {
  for (auto& node : bed.nodes) node->config.shared.clear();
  n2.kubernetesNodes = {"10.0.0.1", "10.0.0.77"};
  request(n2, {});
  EXPECT_EQ(outcome(), "n2 bootstrap: done");
  bed.pass(2 * kj::MINUTES);
  EXPECT_FALSE(both()) << "another node has reported to the other one";
  n1.kubernetesNodes = {"10.0.0.1", "10.0.0.2"};
  n1.wake();
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return both(); }));
  EXPECT_EQ(bed.clusters.size(), 1u);
}

// Catches: a node that forgets the nodes that queried it, at once or with its next start.
TEST_F(Strangers, NodeThatCalledIsCalledInTurn) {
  auto until = bed.timer.now() + kTimeout;
  request(n1, {"10.0.0.2"});
  while (n2.disk.intent.learnedPeers.empty()) {
    ASSERT_LT(bed.timer.now(), until);
    bed.pass(1 * kj::MILLISECONDS);
  }
  EXPECT_EQ(n2.disk.intent.learnedPeers[0], "10.0.0.1");
  bed.powerOff(n2);
  bed.powerOn(n2);
  bed.pass(3 * kj::SECONDS);
  request(n2, {});
  bed.eventually(kTimeout, [&] { return bed.pending == 0; });
  EXPECT_EQ(bed.clusters.size(), 1u);
  EXPECT_TRUE(bed.eventually(kTimeout, [&] { return both(); }));
}

// Catches: a node that queried another one, made no cluster, and blocks the other node for ever.
TEST_F(Strangers, SilentNodeThatCalledCanBeLeftOut) {
  request(n1, {"10.0.0.2", "10.0.0.9"});
  EXPECT_EQ(outcome(),
            "n1 bootstrap: no answer from 10.0.0.9 (connection refused); a node that cannot be "
            "asked may have a cluster: start it, or, if it has none, leave it out with talosctl "
            "bootstrap --without");
  bed.powerOff(n1);
  request(n2, {});
  EXPECT_EQ(outcome().substr(0, 34), "n2 bootstrap: no answer from 10.0.");
  request(n2, {}, {"10.0.0.1"});
  EXPECT_EQ(outcome(), "n2 bootstrap: done");
}

TEST_F(Strangers, ANodeOfTheTalosconfigIsLeftOutAsOneOfTheConfig) {
  request(n1, {"10.0.0.2", "10.0.0.9"}, {"10.0.0.8"});
  EXPECT_EQ(outcome(),
            "n1 bootstrap: cannot do without 10.0.0.8: this node would not ask it; it would ask "
            "10.0.0.2, 10.0.0.9");
  request(n1, {"10.0.0.2", "10.0.0.9"}, {"10.0.0.9"});
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
}

// Catches: a node that waits for itself, or for an address that no node has before etcd runs.
TEST_F(Strangers, OwnAndSharedAddressesOfTheTalosconfigAreNoObstacle) {
  n1.config.shared.add(kj::str(kSharedAddress));
  request(n1, {"10.0.0.1", "127.0.8.2", "::1", "n1", "::ffff:10.0.0.1", "10.0.0.100", "10.0.0.2"});
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
}

// Catches: consent that a power cut takes back.
TEST_F(Strangers, NodeThatCannotStoreTheCallerFails) {
  bed.failures = 1;
  request(n1, {"10.0.0.2"});
  bed.pass(10 * kj::SECONDS);
  EXPECT_EQ(bed.clusters.size(), 0u);
  bed.failures = 0;
  EXPECT_EQ(outcome(), "n1 bootstrap: done");
}

}  // namespace
}  // namespace talos::supervisor
