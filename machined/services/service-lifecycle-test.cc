#include "machined/services/service-lifecycle.h"

#include <gtest/gtest.h>
#include <kj/string.h>

#include <set>

namespace talos::machined {
namespace {

using P = ServicePhase;
using I = ServiceInput;
using A = ServiceAction;

template <typename F>
void forEach(F&& check) {
  for (size_t p = 0; p < kServicePhases; p++) {
    for (size_t i = 0; i < kServiceInputs; i++) {
      auto phase = static_cast<P>(p);
      auto input = static_cast<I>(i);
      SCOPED_TRACE(testing::Message() << "phase " << p << " input " << i);
      check(phase, input, step(phase, input));
    }
  }
}

bool hasProcess(P p) {
  return p == P::kRunning || p == P::kStopping || p == P::kKilling;
}
bool spawnPending(P p) {
  return p == P::kStarting || p == P::kRestarting || p == P::kDooming || p == P::kSeeking;
}

// Catches: a second child in a slot whose first child still lives or is just being started.
TEST(Lifecycle, SpawnsOnlyWhenThereIsNoProcessAndNoneComing) {
  forEach([](P from, I, ServiceStep s) {
    if (s.action != A::kSpawn) return;
    EXPECT_FALSE(hasProcess(from));
    EXPECT_FALSE(spawnPending(from));
    EXPECT_TRUE(spawnPending(s.next));
  });
}

// Catches: a child that is not supervised any more (Finished shown while it runs).
TEST(Lifecycle, AProcessIsLeftOnlyByItsExit) {
  forEach([](P from, I input, ServiceStep s) {
    if (hasProcess(from) && !hasProcess(s.next)) {
      EXPECT_TRUE(input == I::kExited || input == I::kCompleted);
    }
    if (spawnPending(from) && !spawnPending(s.next)) {
      EXPECT_TRUE(input == I::kStarted || input == I::kBroken || input == I::kNotYet ||
                  input == I::kExited);
    }
    if (!hasProcess(from) && hasProcess(s.next)) EXPECT_EQ(I::kStarted, input);
  });
}

// Catches: a stop that is forgotten in some phase, so that stopAll() waits for ever.
TEST(Lifecycle, StopLeadsDownFromEverywhere) {
  for (size_t p = 0; p < kServicePhases; p++) {
    auto phase = step(static_cast<P>(p), I::kStop).next;
    for (int i = 0; i < 4 && !isDown(phase); i++) {
      auto input = spawnPending(phase) ? I::kStarted : i % 2 == 0 ? I::kDue : I::kExited;
      phase = step(phase, input).next;
    }
    EXPECT_TRUE(isDown(phase)) << "from phase " << p;
  }
}

// Catches: a stopped service that runs again without a start.
TEST(Lifecycle, OnlyAStartLeavesADownPhase) {
  forEach([](P from, I input, ServiceStep s) {
    if (!isDown(from)) return;
    if (input == I::kStart) {
      EXPECT_EQ(P::kWaiting, s.next);
      EXPECT_EQ(A::kAwait, s.action);
    } else {
      EXPECT_EQ(from, s.next);
      EXPECT_EQ(A::kNone, s.action);
    }
  });
}

// Catches: an exit in Running that ends the service instead of restarting it, and the reverse.
TEST(Lifecycle, ExitsRestartUnlessStopped) {
  EXPECT_EQ(P::kPausing, step(P::kRunning, I::kExited).next);
  EXPECT_EQ(P::kFinished, step(P::kStopping, I::kExited).next);
  EXPECT_EQ(P::kFinished, step(P::kKilling, I::kExited).next);
}

// Catches: retries of a program that can never start, and a service that is given up although it
// ran before.
TEST(Lifecycle, AFirstStartThatBreaksFailsALaterOnePauses) {
  EXPECT_EQ(P::kFailed, step(P::kPreparing, I::kBroken).next);
  EXPECT_EQ(P::kFailed, step(P::kStarting, I::kBroken).next);
  EXPECT_EQ(P::kPausing, step(P::kRestarting, I::kBroken).next);
  EXPECT_EQ(P::kPausing, step(P::kStarting, I::kNotYet).next);
}

// Catches: a step whose action does not fit its next phase.
TEST(Lifecycle, EveryActionFitsItsPhase) {
  forEach([](P from, I, ServiceStep s) {
    switch (s.action) {
      case A::kNone:
        EXPECT_TRUE(s.next == from || s.next == P::kDooming);
        break;
      case A::kAwait:
        EXPECT_EQ(P::kWaiting, s.next);
        break;
      case A::kPrepare:
        EXPECT_EQ(P::kPreparing, s.next);
        break;
      case A::kSpawn:
        EXPECT_TRUE(spawnPending(s.next));
        break;
      case A::kAttend:
        EXPECT_EQ(P::kRunning, s.next);
        break;
      case A::kPause:
        EXPECT_EQ(P::kPausing, s.next);
        break;
      case A::kTerminate:
        EXPECT_EQ(P::kStopping, s.next);
        break;
      case A::kKill:
        EXPECT_EQ(P::kKilling, s.next);
        break;
      case A::kConclude:
        EXPECT_EQ(P::kFinished, s.next);
        break;
      case A::kGiveUp:
        EXPECT_EQ(P::kFailed, s.next);
        break;
    }
  });
}

// Catches: a service that is started while the search for its container runs, or comes up without
// it; a service that is stopped meanwhile and continues to run.
TEST(Lifecycle, WhatIsSoughtIsFoundOrStartedAgain) {
  EXPECT_EQ(P::kRunning, step(P::kSeeking, I::kStarted).next);
  EXPECT_EQ(P::kPausing, step(P::kSeeking, I::kExited).next);
  EXPECT_EQ(P::kSeeking, step(P::kSeeking, I::kStart).next);
  EXPECT_EQ(P::kDooming, step(P::kSeeking, I::kStop).next);
  EXPECT_EQ(A::kTerminate, step(P::kDooming, I::kStarted).action);
  EXPECT_EQ(P::kFinished, step(P::kDooming, I::kExited).next);
  EXPECT_EQ(rpc::ServiceState::RUNNING, shown(P::kSeeking));
}

// Catches: a phase that no start can reach (a forgotten row).
TEST(Lifecycle, EveryPhaseIsReachable) {
  std::set<P> reached{P::kIdle, P::kSeeking};  // the two initial phases
  for (size_t round = 0; round < kServicePhases; round++) {
    forEach([&](P from, I, ServiceStep s) {
      if (reached.count(from)) reached.insert(s.next);
    });
  }
  EXPECT_EQ(kServicePhases, reached.size());
}

// Catches: a name that is shifted against the wire's enum.
TEST(Lifecycle, StatesAreShownByTheirNames) {
  EXPECT_STREQ("Initialized", nameOf(shown(P::kIdle)).cStr());
  EXPECT_STREQ("Waiting", nameOf(shown(P::kPausing)).cStr());
  EXPECT_STREQ("Running", nameOf(shown(P::kRunning)).cStr());
  EXPECT_STREQ("Stopping", nameOf(shown(P::kKilling)).cStr());
  EXPECT_STREQ("Skipped", nameOf(rpc::ServiceState::SKIPPED).cStr());
}

// Catches: a first restart that waits, a pause that grows without limit or never grows.
TEST(RestartPolicy, AtOnceThenDoublingToFiveSeconds) {
  RestartPolicy policy;
  auto quick = 1 * kj::SECONDS;
  EXPECT_EQ(0 * kj::SECONDS, policy.next(quick, 0));
  kj::Duration expected[] = {100 * kj::MILLISECONDS,  200 * kj::MILLISECONDS,
                             400 * kj::MILLISECONDS,  800 * kj::MILLISECONDS,
                             1600 * kj::MILLISECONDS, 3200 * kj::MILLISECONDS,
                             5 * kj::SECONDS,         5 * kj::SECONDS};
  for (auto e : expected) EXPECT_EQ(e, policy.next(quick, 0));
  for (int i = 0; i < 1000; i++) EXPECT_EQ(5 * kj::SECONDS, policy.next(quick, 0));
}

// Catches: jitter that lengthens the pause beyond 5 s or shortens it to nothing.
TEST(RestartPolicy, ChanceTakesOffUpToHalf) {
  RestartPolicy policy;
  for (int i = 0; i < 10; i++) policy.next(0 * kj::SECONDS, 0);
  EXPECT_EQ(2500 * kj::MILLISECONDS, policy.next(0 * kj::SECONDS, 1.0));
}

// Catches: a back-off that is never reset, so that one crash a day leads to pauses of 5 s.
TEST(RestartPolicy, TenSecondsOfRunningForgetThePast) {
  RestartPolicy policy;
  for (int i = 0; i < 10; i++) policy.next(0 * kj::SECONDS, 0);
  EXPECT_EQ(0 * kj::SECONDS, policy.next(10 * kj::SECONDS, 0));
  EXPECT_EQ(100 * kj::MILLISECONDS, policy.next(9999 * kj::MILLISECONDS, 0));
}

}  // namespace
}  // namespace talos::machined
