#include "talosctl/upgrade-cluster/rolling-run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/testing/virtual-time.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/upgrade-cluster/test-rolling-cluster.h"

namespace talos::talosctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Phase = ModelRollingCluster::Phase;

struct RollingRunTest : public testing::Test {
  ~RollingRunTest() noexcept override {}
  ConsoleFixture test;
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelRollingCluster cluster;
  RollingOptions options;
  TargetImage target{kj::str("r/i:v2"), kj::str(), kj::str()};
  EventFormat format = EventFormat::kText;
  bool yes = true;
  std::string question;

  // Returns "yes", "no", or the error.
  std::string run() {
    cluster.requests.clear();
    RollingLines lines(test.console, format);
    auto confirm = [this](kj::StringPtr text) -> kj::Promise<bool> {
      question = text.cStr();
      return yes;
    };
    RollingRun rolling(timer, cluster, lines,
                       {kj::str(target.text), kj::str(target.digest), kj::str()}, options, confirm);
    return outcomeOf(timer, test.io.waitScope, rolling.run(),
                     [](bool done) { return done ? "yes" : "no"; });
  }
  std::string err() { return test.console.takeErr().cStr(); }
  std::string out() { return test.console.takeOut().cStr(); }
  std::vector<std::string> upgrades() const {
    std::vector<std::string> all;
    for (auto& one : cluster.requests) {
      if (!one.starts_with("fetch")) all.push_back(one);
    }
    return all;
  }
};

// Catches: a change before every node has the image, or before the question; a worker before the
// control plane; the leader or the holder before the others; a leader that does not hand over.
TEST_F(RollingRunTest, NodeAfterNodeInItsOrder) {
  EXPECT_EQ(run(), "yes");
  EXPECT_EQ(question, "upgrade 5 nodes to v2?");
  EXPECT_THAT(cluster.requests,
              ElementsAre("fetch 10.5.0.2 keep", "fetch 10.5.0.3 keep", "fetch 10.5.0.4 keep",
                          "fetch 10.5.0.5 keep", "fetch 10.5.0.6 keep", "upgrade 10.5.0.4",
                          "upgrade 10.5.0.3", "forfeit 10.5.0.2", "upgrade 10.5.0.2",
                          "upgrade 10.5.0.5", "upgrade 10.5.0.6"));
  EXPECT_EQ(cluster.together, 1u);
  EXPECT_EQ(out(),
            "NODE       VERSION   RESULT     MESSAGE\n"
            "10.5.0.4   v2        upgraded   \n"
            "10.5.0.3   v2        upgraded   \n"
            "10.5.0.2   v2        upgraded   \n"
            "10.5.0.5   v2        upgraded   \n"
            "10.5.0.6   v2        upgraded   \n");
  // Runs again: nothing is left to do, and the user is not asked.
  question = "";
  EXPECT_EQ(run(), "yes");
  EXPECT_EQ(question, "");
  EXPECT_THAT(upgrades(), ElementsAre());
  EXPECT_THAT(err(), HasSubstr("all nodes run v2"));
}

// Catches: a change without the user's consent; a plan on the wrong stream; an image that is kept
// after a dry run.
TEST_F(RollingRunTest, NothingIsChangedWithoutAYes) {
  yes = false;
  EXPECT_EQ(run(), "no");
  EXPECT_THAT(upgrades(), ElementsAre());
  EXPECT_EQ(out(), "");
  EXPECT_THAT(err(), HasSubstr("10.5.0.4   control plane   v1     v2   upgrade\n"));
  yes = true;
  options.dryRun = true;
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(upgrades(), ElementsAre());
  ASSERT_FALSE(cluster.requests.empty());
  EXPECT_EQ(cluster.requests.back(), "fetch 10.5.0.6");
  EXPECT_THAT(out(), HasSubstr("10.5.0.4   control plane   v1     v2   upgrade\n"));
}

// Catches: a survey whose findings do not stop the run; an image that is written to nodes before
// one of them has refused it.
TEST_F(RollingRunTest, WhatStopsItStopsItFirst) {
  cluster.change = [](ClusterSurvey& s) { KJ_ASSERT_NONNULL(s.kubernetes).nodes[4].ready = false; };
  EXPECT_EQ(run(),
            "the cluster cannot be upgraded now, and nothing was changed: the error above "
            "stops it");
  EXPECT_TRUE(cluster.requests.empty());
  EXPECT_EQ(err(),
            "waiting up to 3m0s: 10.5.0.6: its kubelet is not Ready: KubeletReady\n"
            "error: 10.5.0.6: its kubelet is not Ready: KubeletReady; see talosctl "
            "diagnose\n");
  cluster.change = [](auto&) {};
  cluster.fetchErrors["10.5.0.5"] = "no space left on device";
  EXPECT_THAT(run(), HasSubstr("nothing was changed"));
  EXPECT_THAT(upgrades(), ElementsAre());
  EXPECT_THAT(err(), HasSubstr("error: 10.5.0.5: it cannot take the image: no space left"));
  cluster.fetchErrors.clear();
  cluster.oldSystems = {"10.5.0.5"};
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(err(), HasSubstr("WARNING: 10.5.0.5: its system cannot fetch an image before"));
}

// Catches: an upgrade of the next node after a node fell back; a run that does not say how to
// continue; a run that cannot be continued.
TEST_F(RollingRunTest, TheFirstThatFallsBackStopsIt) {
  cluster.bad = {"10.5.0.3"};
  EXPECT_EQ(run(),
            "stopped at 10.5.0.3: apid is not up; back on slot A (v1)\n"
            "1 of 5 nodes run v2, the others what they ran before; when 10.5.0.3 is well, run the "
            "same command again: it continues from there");
  EXPECT_THAT(upgrades(), ElementsAre("upgrade 10.5.0.4", "upgrade 10.5.0.3"));
  EXPECT_EQ(out(),
            "NODE       VERSION   RESULT     MESSAGE\n"
            "10.5.0.4   v2        upgraded   \n"
            "10.5.0.3   v1        failed     apid is not up; back on slot A (v1)\n"
            "10.5.0.2   v1        left       \n"
            "10.5.0.5   v1        left       \n"
            "10.5.0.6   v1        left       \n");
  err();
  cluster.bad.clear();
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(err(), HasSubstr("WARNING: 10.5.0.3: its last upgrade to this image failed: apid is "
                               "not up; it is tried again\n"));
  EXPECT_THAT(upgrades(), ElementsAre("upgrade 10.5.0.3", "forfeit 10.5.0.2", "upgrade 10.5.0.2",
                                      "upgrade 10.5.0.5", "upgrade 10.5.0.6"));
}

// Catches: a second upgrade of a node in the middle of its upgrade; a rebooting node that counts as
// off; a request to a finished node.
TEST_F(RollingRunTest, ARunThatWasCutOffContinues) {
  cluster.phases = {{"10.5.0.4", Phase::kDone}, {"10.5.0.3", Phase::kTrying}};
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(upgrades(), ElementsAre("forfeit 10.5.0.2", "upgrade 10.5.0.2", "upgrade 10.5.0.5",
                                      "upgrade 10.5.0.6"));
  cluster.phases = {{"10.5.0.4", Phase::kDone}, {"10.5.0.3", Phase::kAway}};
  unsigned surveys = 0;
  cluster.change = [&](ClusterSurvey& s) {
    if (++surveys == 20) cluster.phases["10.5.0.3"] = Phase::kTrying;
  };
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(err(), HasSubstr("waiting up to 3m0s: 10.5.0.3: it is booting, or does not answer"));
  EXPECT_THAT(upgrades(), Not(testing::Contains("upgrade 10.5.0.3")));
  // The API server of this node is the one that is called.
  cluster.phases = {{"10.5.0.4", Phase::kDone}};
  surveys = 0;
  cluster.change = [&](ClusterSurvey& s) {
    if (++surveys < 20) KJ_ASSERT_NONNULL(s.kubernetes).problem = kj::str("connection refused");
  };
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(err(),
              HasSubstr("waiting up to 3m0s: Kubernetes does not answer: connection refused"));
  // The node is back after a power cut in the middle of its trial.
  cluster.phases = {{"10.5.0.4", Phase::kDone}, {"10.5.0.3", Phase::kFailed}};
  surveys = 0;
  cluster.change = [&](ClusterSurvey& s) {
    if (++surveys < 20) KJ_ASSERT_NONNULL(s.kubernetes).nodes[1].ready = false;
  };
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(err(), HasSubstr("waiting up to 3m0s: 10.5.0.3: its kubelet is not Ready"));
  EXPECT_THAT(upgrades(), testing::Contains("upgrade 10.5.0.3"));
  cluster.change = [](auto&) {};
  // All nodes are being upgraded: the image of the tag is known when one of them has ended.
  for (int i = 2; i < 7; ++i) {
    cluster.phases[kj::str("10.5.0.", i).cStr()] = Phase::kTrying;
  }
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(cluster.requests, ElementsAre("fetch 10.5.0.2 keep"));
}

// Catches: an upgrade of the next node while etcd has not caught up, or while the last node accepts
// no pods; a wait without an end.
TEST_F(RollingRunTest, ItWaitsUntilTheClusterIsWell) {
  unsigned behind = 0;
  cluster.change = [&](ClusterSurvey& s) {
    if (cluster.phase("10.5.0.4") != Phase::kDone || behind == 5) return;
    ++behind;
    s.nodes[2].etcdApplied = 1;
    EXPECT_EQ(cluster.phase("10.5.0.3"), Phase::kOld);
  };
  EXPECT_EQ(run(), "yes");
  EXPECT_EQ(behind, 5u);
  EXPECT_THAT(err(), HasSubstr("10.5.0.4: waiting until the cluster is well: etcd of 10.5.0.4 is "
                               "999 entries behind the others\n"));
  cluster.phases.clear();
  cluster.leader = "m-1";
  cluster.change = [&](ClusterSurvey& s) {
    if (cluster.phase("10.5.0.4") == Phase::kDone) s.nodes[2].etcdPhase = kj::str("learner");
  };
  EXPECT_THAT(run(), HasSubstr("stopped at 10.5.0.4: waiting until the cluster is well timed out "
                               "after 10m0s: etcd of 10.5.0.4 is no voting member (learner)"));
  EXPECT_THAT(upgrades(), ElementsAre("upgrade 10.5.0.4"));
  cluster.phases.clear();
  unsigned cordoned = 0;
  cluster.change = [&](ClusterSurvey& s) {
    auto at = cluster.phase("10.5.0.4");
    if (at == Phase::kDone) ++cordoned;
    KJ_ASSERT_NONNULL(s.kubernetes).nodes[2].unschedulable = at != Phase::kOld && cordoned < 6;
  };
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(err(), HasSubstr("10.5.0.4: waiting until it takes pods: it is still cordoned\n"));
  // A node that a user has cordoned stays cordoned.
  cluster.phases.clear();
  cluster.change = [&](ClusterSurvey& s) {
    KJ_ASSERT_NONNULL(s.kubernetes).nodes[2].unschedulable = true;
  };
  EXPECT_EQ(run(), "yes");
}

// Catches: an eviction against a budget that had room when the run began; a budget that cannot be
// overridden.
TEST_F(RollingRunTest, BudgetsAreAskedBeforeEachNode) {
  bool forbids = false;
  cluster.change = [&](ClusterSurvey& s) {
    auto& budget = KJ_ASSERT_NONNULL(s.kubernetes).budgets.add();
    budget.name = kj::str("a/b");
    budget.pods.add(KubernetesSurvey::Budget::Pod{kj::str("p"), kj::str("w-1")});
    budget.allowed = forbids || cluster.phase("10.5.0.2") == Phase::kDone ? 0 : 1;
  };
  EXPECT_THAT(run(), HasSubstr("stopped at 10.5.0.5: waiting until its pods may leave timed out "
                               "after 5m0s: PodDisruptionBudget a/b forbids that p leaves it now"));
  ASSERT_FALSE(upgrades().empty());
  EXPECT_EQ(upgrades().back(), "upgrade 10.5.0.2");
  forbids = true;
  EXPECT_THAT(run(), HasSubstr("nothing was changed"));
  options.ignoreBudgets = true;
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(err(), HasSubstr("WARNING: 10.5.0.5: PodDisruptionBudget a/b"));
}

// Catches: a run without reboots that waits for pods to leave, or moves the leadership of etcd.
TEST_F(RollingRunTest, WithoutRebootsNoPodLeavesItsNode) {
  cluster.change = [](ClusterSurvey& s) {
    auto& budget = KJ_ASSERT_NONNULL(s.kubernetes).budgets.add();
    budget.name = kj::str("a/b");
    budget.pods.add(KubernetesSurvey::Budget::Pod{kj::str("p"), kj::str("w-1")});
  };
  EXPECT_THAT(run(), HasSubstr("nothing was changed"));
  options.live = true;
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(err(), Not(HasSubstr("handing over the leadership")));
}

// Catches: more or fewer workers at a time than requested; a failure after which the next worker
// begins, or which forgets the other worker in progress.
TEST_F(RollingRunTest, WorkersInParallel) {
  options.parallel = 2;
  EXPECT_EQ(run(), "yes");
  EXPECT_EQ(cluster.together, 2u);
  cluster.phases.clear();
  cluster.bad = {"10.5.0.5"};
  EXPECT_THAT(run(), HasSubstr("stopped at 10.5.0.5: apid is not up; back on slot A (v1)\n4 of 5"));
  EXPECT_EQ(cluster.phase("10.5.0.6"), Phase::kDone);
  cluster.phases.clear();
  options.parallel = 1;
  EXPECT_THAT(run(), HasSubstr("stopped at 10.5.0.5"));
  EXPECT_EQ(cluster.phase("10.5.0.6"), Phase::kOld);
}

// Catches: a run that gives up because another control-plane node is being upgraded, because
// another run was a moment faster, or because a node has restarted since the file was sent to it.
TEST_F(RollingRunTest, RefusalsThatPass) {
  cluster.refusals["10.5.0.4"] = {ErrorKind::kUnavailable, ErrorKind::kUnavailable};
  cluster.refusals["10.5.0.3"] = {ErrorKind::kConflict};
  cluster.refusals["10.5.0.5"] = {ErrorKind::kNotFound};
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(err(), HasSubstr("10.5.0.4: waiting for its turn: not now\n"));
  EXPECT_EQ(std::count(cluster.requests.begin(), cluster.requests.end(), "upgrade 10.5.0.4"), 3);
  EXPECT_EQ(std::count(cluster.requests.begin(), cluster.requests.end(), "upgrade 10.5.0.3"), 1);
  EXPECT_EQ(std::count(cluster.requests.begin(), cluster.requests.end(), "fetch 10.5.0.5 keep"), 2);
  cluster.phases.clear();
  cluster.refusals["10.5.0.4"] = {ErrorKind::kPermissionDenied};
  EXPECT_THAT(run(), HasSubstr("stopped at 10.5.0.4: not now"));
}

// Catches: events that a program cannot parse, or that lack data of the table.
TEST_F(RollingRunTest, EventsForPrograms) {
  cluster.phases = {{"10.5.0.2", Phase::kDone},
                    {"10.5.0.3", Phase::kDone},
                    {"10.5.0.4", Phase::kDone},
                    {"10.5.0.5", Phase::kDone}};
  cluster.bad = {"10.5.0.6"};
  format = EventFormat::kJson;
  EXPECT_THAT(run(), HasSubstr("stopped at 10.5.0.6"));
  auto text = out();
  EXPECT_THAT(text, HasSubstr(R"({"event":"plan","node":"10.5.0.6","role":"worker","from":"v1",)"
                              R"("to":"v2","image":"r/i@sha256:aa","action":"upgrade"})"
                              "\n"));
  EXPECT_THAT(text,
              HasSubstr(R"({"event":"progress","node":"10.5.0.6","message":"trying slot B )"));
  EXPECT_THAT(text, HasSubstr(R"({"event":"result","node":"10.5.0.2","result":"unchanged",)"
                              R"("version":"v2"})"
                              "\n"));
  EXPECT_THAT(text,
              HasSubstr(R"({"event":"result","node":"10.5.0.6","result":"failed",)"
                        R"x("version":"v1","message":"apid is not up; back on slot A (v1)"})x"));
  format = EventFormat::kYaml;
  cluster.bad.clear();
  EXPECT_EQ(run(), "yes");
  EXPECT_THAT(out(), HasSubstr("---\nevent: result\nnode: 10.5.0.6\nresult: upgraded\n"));
}

}  // namespace
}  // namespace talos::talosctl
