// The time of a trial, and the duties that the config takes from a system on trial;
// upgrader-test.cc has whole trials.
#include "machined/upgrade/system-trial.h"

#include <gtest/gtest.h>

#include "common/testing/virtual-time.h"
#include "machined/upgrade/test-upgrader.h"

namespace talos::machined {
namespace {

using Verdict = TrialClock::Verdict;

kj::TimePoint secondOf(unsigned second) {
  return kj::origin<kj::TimePoint>() + second * kj::SECONDS;
}
Health sick(bool elsewhere = false) {
  return Health{.lacks = kj::str("x"), .causedElsewhere = elsewhere};
}

}  // namespace

// Catches: a system that is confirmed although a service that it needs comes up and exits again and
// again.
TEST(TrialClock, ASystemIsSteadyAfterFiveHealthySeconds) {
  TrialClock clock(secondOf(0), 60 * kj::SECONDS, 60 * kj::SECONDS);
  EXPECT_FALSE(clock.isSteady(Health{}, secondOf(1)));
  EXPECT_FALSE(clock.isSteady(Health{}, secondOf(5)));
  EXPECT_FALSE(clock.isSteady(sick(), secondOf(6)));
  EXPECT_FALSE(clock.isSteady(Health{}, secondOf(7)));
  EXPECT_FALSE(clock.isSteady(Health{}, secondOf(11)));
  EXPECT_TRUE(clock.isSteady(Health{}, secondOf(12)));
}

// Catches: a deadline that is missed by one turn; a healthy system that outlives its deadline
// because it is not steady.
TEST(TrialClock, ATrialIsTooLateAtItsDeadline) {
  for (bool isSick : {true, false}) {
    TrialClock clock(secondOf(10), 30 * kj::SECONDS, 60 * kj::SECONDS);
    EXPECT_EQ(clock.judge(isSick ? sick() : Health{}, secondOf(39)), Verdict::kInTime);
    EXPECT_EQ(clock.left(secondOf(39)).orDefault(0 * kj::SECONDS), 1 * kj::SECONDS);
    EXPECT_EQ(clock.judge(isSick ? sick() : Health{}, secondOf(40)), Verdict::kTooLate);
  }
}

// Catches: a system that is given up while other nodes are the cause, or that has no time left when
// they work again; a wait that is announced in each second.
TEST(TrialClock, AWaitForOtherNodesRenewsTheTime) {
  TrialClock clock(secondOf(0), 30 * kj::SECONDS, 60 * kj::SECONDS);
  EXPECT_EQ(clock.judge(sick(true), secondOf(29)), Verdict::kInTime);
  EXPECT_EQ(clock.judge(sick(true), secondOf(30)), Verdict::kWaitForOthers);
  EXPECT_EQ(clock.judge(sick(true), secondOf(1000)), Verdict::kInTime);
  EXPECT_TRUE(clock.left(secondOf(1000)) == nullptr);
  EXPECT_EQ(clock.judge(Health{}, secondOf(1001)), Verdict::kInTime);
  EXPECT_EQ(clock.judge(sick(), secondOf(1002)), Verdict::kInTime);
  EXPECT_EQ(clock.judge(sick(), secondOf(1061)), Verdict::kInTime);
  EXPECT_EQ(clock.judge(sick(), secondOf(1062)), Verdict::kTooLate);
}

// Catches: a new system that is given up because it heeds a key of the config that the old one has
// ignored.
TEST_F(UpgraderTest, ANodeThatTheConfigKeepsOutOfKubernetesNeedsNoNodeObject) {
  {
    System old(disk);
    old.doing = {{"Kubernetes node", ""}, {"pod kube-system/kube-apiserver-a", ""}};
    old.boot(scope);
    old.upgrader.rollback(60).wait(scope);
  }
  System fresh(disk);
  fresh.unregistered = true;
  fresh.boot(scope);
  advance(fresh.timer, scope, 20 * kj::SECONDS);
  EXPECT_EQ(fresh.status(), "done B v2: ");
}

}  // namespace talos::machined
