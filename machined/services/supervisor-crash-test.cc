// A restarted brain adopts the services of its predecessor.
#include "machined/process1/test-damaged-descriptors.h"
#include "machined/process1/value-in-memory-file.h"
#include "machined/services/test-supervisor.h"
#include "rpc/held.capnp.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;

// Catches: a brain that starts its children a second time, or forgets their history.
TEST_F(SupervisorTest, ANewBrainAdoptsWhatRuns) {
  supervisor->load(define("a"));
  supervisor->start("a");
  crashBrain();
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  EXPECT_EQ(1u, machine.spawns);
  EXPECT_THAT(
      events,
      ElementsAre("a Running Adopted running process (PID 100) after a restart of machined"));
  capnp::MallocMessageBuilder m;
  auto s = m.initRoot<rpc::Service>();
  supervisor->fill("a", s);
  EXPECT_EQ(100, s.getPid());
  EXPECT_EQ(5u, s.getEvents().size());
  EXPECT_EQ("Service loaded"_kj, s.getEvents()[0].getMessage());
  machine.exit("a", SIGKILL);  // and it is supervised as before
  run();
  EXPECT_TRUE(machine.runs("a"));
}

// Catches: a service that died together with the brain and is not started again.
TEST_F(SupervisorTest, ANewBrainRestartsWhatDiedMeanwhile) {
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  machine.exit("a", SIGKILL);  // no brain has seen the exit
  supervisor = nullptr;
  process1 = nullptr;
  startBrain();
  supervisor->load(define("a"));
  advance(1 * kj::SECONDS);
  EXPECT_EQ(2u, machine.spawns);
  EXPECT_TRUE(machine.runs("a"));
}

// Catches: an exit that is acknowledged before process 1 holds its result, so that a crash in
// between loses it.
TEST_F(SupervisorTest, AnExitIsAcknowledgedWhenItWasDealtWith) {
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  auto before = machine.holdCount, then = before;
  machine.onAcknowledged = [&]() { then = machine.holdCount; };
  machine.exit("a", SIGKILL);
  run();
  EXPECT_GT(then, before);
  EXPECT_THAT(events, testing::Contains(testing::HasSubstr("killed by signal 9")));
  machine.onAcknowledged = []() {};
}

// Catches: a service that is shown as running for ever, because its process ended after the new
// brain had learnt of it and before the service was loaded.
TEST_F(SupervisorTest, WhatEndsBeforeItIsLoadedIsNotAdopted) {
  supervisor->load(define("a"));
  supervisor->start("a");
  crashBrain();
  machine.exit("a", SIGKILL);
  run();
  supervisor->load(define("a"));
  advance(1 * kj::SECONDS);
  EXPECT_THAT(events.front(),
              testing::StartsWith("a Waiting Process ended while machined was away"));
  EXPECT_TRUE(machine.runs("a"));
  EXPECT_EQ(2u, machine.spawns);
}

// Catches: the exit of the previous brain's child that counts as the exit of a child that is being
// started, or was just started.
class LastChild : public SupervisorTest, public testing::WithParamInterface<bool> {
 public:
  ~LastChild() noexcept override {}
};
INSTANTIATE_TEST_SUITE_P(Ends, LastChild, testing::Bool());

TEST_P(LastChild, IsNotTheNextOne) {
  bool duringTheStart = GetParam();
  // Exits arrive one by one: the exits of many others come first.
  kj::Vector<kj::String> others;
  for (int i = 0; i < 40; ++i) others.add(kj::str("x", i));
  for (auto& id : others) {
    supervisor->load(define(id));
    supervisor->start(id);
  }
  run();
  machine.spawnGate = kj::Promise<void>(kj::NEVER_DONE);
  supervisor->load(define("a"));
  supervisor->start("a");
  crashBrain();  // the answer to the spawn is lost
  supervisor = nullptr;
  process1 = nullptr;
  for (auto& id : others) machine.exit(id, 0);
  machine.exit("a", 1 << 8);
  startBrain();
  auto paf = kj::newPromiseAndFulfiller<void>();
  machine.spawnGate = kj::mv(paf.promise);
  if (!duringTheStart) paf.fulfiller->fulfill();
  supervisor->load(define("a"));
  run();
  paf.fulfiller->fulfill();
  run();
  EXPECT_EQ(others.size() + 2, machine.spawns);
  EXPECT_EQ(rpc::ServiceState::RUNNING, state("a"));
}

// Catches: a service that the user had stopped and that a new brain starts again.
TEST_F(SupervisorTest, ANewBrainLeavesTheStoppedStopped) {
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  supervisor->stop("a").wait(scope);
  crashBrain();
  supervisor->load(define("a"));
  advance(10 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("a"));
  EXPECT_EQ(rpc::ServiceState::FINISHED, state("a"));
}

// Catches: a stop that is forgotten when the brain dies during it.
TEST_F(SupervisorTest, ANewBrainFinishesAStop) {
  machine.diesOf = [](auto&, int signal) { return signal == SIGKILL; };
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  auto stopped = supervisor->stop("a");
  run();
  {
    auto drop = kj::mv(stopped);
  }
  crashBrain();
  supervisor->load(define("a"));
  advance(11 * kj::SECONDS);
  EXPECT_FALSE(machine.runs("a"));
  EXPECT_EQ(rpc::ServiceState::FINISHED, state("a"));
}

// Catches: waiting that ends with the brain.
TEST_F(SupervisorTest, ANewBrainGoesOnWaiting) {
  supervisor->load(define("a"));
  supervisor->load(define("b", {"a"}));
  supervisor->start("b");
  crashBrain();
  supervisor->load(define("a"));
  supervisor->load(define("b", {"a"}));
  supervisor->start("a");
  run();
  EXPECT_TRUE(machine.runs("b"));
}

// Checks that the promise is done whatever else a test waits for: the request was answered.
void answered(kj::WaitScope& scope, kj::Promise<void> promise) {
  scope.poll();
  ASSERT_TRUE(promise.poll(scope)) << "not answered";
  promise.wait(scope);
}

// Catches: a signal that was answered and is lost with the brain.
TEST_F(SupervisorTest, WhatWasAnsweredIsSentWhateverTheBrainDoes) {
  machine.diesOf = [](auto&, int) { return false; };
  supervisor->load(define("a"));
  supervisor->start("a");
  run();
  answered(scope, supervisor->signal("a", SIGHUP));
  crashBrain();
  supervisor->load(define("a"));
  run();
  ASSERT_EQ(1u, machine.child("a").signals.size());
  EXPECT_EQ(SIGHUP, machine.child("a").signals[0]);
}

// Catches: the same for a service that its callers depend on, and a signal that is sent twice.
TEST_F(SupervisorTest, ASuccessorSendsWhatIsDue) {
  machine.diesOf = [](auto&, int) { return false; };
  supervisor->load(carrier("a"));
  supervisor->start("a");
  run();
  answered(scope, supervisor->signal("a", SIGHUP));
  answered(scope, supervisor->signal("a", SIGUSR1));
  EXPECT_EQ(0u, machine.child("a").signals.size());
  for (int brains = 0; brains < 2; ++brains) {
    crashBrain();
    supervisor->load(carrier("a"));
    advance(1 * kj::SECONDS);
    auto& sent = machine.child("a").signals;
    EXPECT_THAT(std::vector<int>(sent.begin(), sent.end()), ElementsAre(SIGHUP, SIGUSR1));
  }
}

// Catches: a signal that reaches the next process instead of the intended one.
TEST_F(SupervisorTest, ASuccessorSendsNothingToAnotherProcess) {
  machine.diesOf = [](auto&, int) { return false; };
  supervisor->load(carrier("a"));
  supervisor->start("a");
  run();
  answered(scope, supervisor->signal("a", SIGHUP));
  machine.exit("a", 0);
  run();
  crashBrain();
  supervisor->load(carrier("a"));
  advance(1 * kj::SECONDS);
  EXPECT_EQ(0u, machine.child("a").signals.size());
}

// Catches: a restart that was answered and that a crash of the brain, at any point, turns into
// nothing, or into a stop.
class RestartAcross : public SupervisorTest,
                      public testing::WithParamInterface<std::tuple<bool, int>> {
 public:
  ~RestartAcross() noexcept override {}
};
INSTANTIATE_TEST_SUITE_P(Crashes, RestartAcross,
                         testing::Combine(testing::Bool(), testing::Range(0, 4)));

TEST_P(RestartAcross, IsARestart) {
  auto [carries, when] = GetParam();
  auto definition = [&]() { return carries ? carrier("a") : define("a"); };
  machine.diesOf = [](auto&, int) { return false; };
  supervisor->load(definition());
  supervisor->start("a");
  run();
  answered(scope, supervisor->restart("a"));
  if (when >= 1) advance(200 * kj::MILLISECONDS);  // its SIGTERM was sent
  auto end = [&]() { machine.exit("a", 0); };
  if (when >= 2) end();
  if (when == 3) run();
  supervisor = nullptr;  // when 2: no brain has seen the exit
  process1 = nullptr;
  startBrain();
  supervisor->load(definition());
  advance(1 * kj::SECONDS);
  if (when < 2) {
    ASSERT_TRUE(machine.runs("a"));
    EXPECT_EQ(SIGTERM, machine.child("a").signals[0]);
    end();
  }
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(machine.runs("a"));
  EXPECT_EQ(2u, machine.spawns);
}

// Catches: a start that was answered and is forgotten.
TEST_F(SupervisorTest, AStartThatWasAnsweredComes) {
  supervisor->load(define("a"));
  supervisor->start("a");
  auto kept = supervisor->kept("a");
  supervisor = nullptr;  // before its next step
  process1 = nullptr;
  startBrain();
  supervisor->load(define("a"));
  run();
  EXPECT_TRUE(machine.runs("a"));
}

// Catches: a brain that crashes on a damaged history, as the next brain will, too.
TEST_F(SupervisorTest, AHistoryThatCannotBeReadIsNone) {
  for (auto& bad : garbage("held")) {
    supervisor = nullptr;
    process1 = nullptr;
    machine.keep("service/a", kj::mv(bad.fd));
    startBrain();
    supervisor->load(define("a"));
    run();
    EXPECT_EQ(rpc::ServiceState::INITIALIZED, state("a")) << bad.what.cStr();
  }
}

// Catches: a brain that crashes on a well-formed record of nonsense.
TEST_F(SupervisorTest, NonsenseInAHistoryIsSurvived) {
  Held<rpc::HeldService>(*process1, "service/a")
      .hold([](rpc::HeldService::Builder out) {
        out.initShown().setState(static_cast<rpc::ServiceState>(77));
        out.setRestart(true);
        out.setSignals(~0ull);
        out.setTo(-1);
      })
      .wait(scope);
  crashBrain();
  supervisor->load(define("a"));
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(machine.runs("a"));
  EXPECT_EQ(0u, machine.child("a").signals.size());
}

}  // namespace
}  // namespace talos::machined
