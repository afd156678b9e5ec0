// Services whose body is not a child of process 1 but belongs to a runtime that may be away: a
// container. The tests use a model of the runtime; the real ones are in tests/containerd.
#include "common/base/signal.h"
#include "machined/services/service-container.h"
#include "machined/services/test-supervisor.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The runtime: it continues when a brain dies.
struct ModelRuntime {
  bool answers = true, cannotStart = false;
  kj::Own<Signal> awake = kj::heap<Signal>();
  int running = 0, lastPid = 0;  // PID; 0: none
  unsigned starts = 0, removals = 0, prepared = 0;
  std::vector<int> signals;
  kj::Maybe<int> status;  // status of an ended instance that was not removed
  kj::Maybe<kj::String> cannotPrepare;
  kj::Maybe<kj::Promise<void>> gate;  // blocks the next prepare()
  kj::Maybe<kj::String> loses;        // error of the next start(), after it has started
  kj::Vector<kj::String> environment;

  void exit(int how) {
    running = 0;
    status = how;
    awake->raise();
  }
  void answer(bool does) {
    answers = does;
    awake->raise();
  }
};

class ModelBody final : public ServiceBody {
 public:
  explicit ModelBody(ModelRuntime& runtime) : runtime(runtime) {}
  kj::StringPtr noun() const override { return "task c"; }
  kj::String startedMessage(int pid) const override {
    return kj::str("Started task c (PID ", pid, ") for container c");
  }
  kj::Promise<void> prepare(kj::Function<void(kj::StringPtr)> note) override {
    ++runtime.prepared;
    KJ_IF_MAYBE (problem, runtime.cannotPrepare) {
      note("retrying in 5 s");
      fail(ErrorKind::kNotFound, *problem);
    }
    KJ_IF_MAYBE (gate, runtime.gate) {
      auto waiting = kj::mv(*gate);
      runtime.gate = nullptr;
      return waiting;
    }
    return kj::READY_NOW;
  }
  kj::Promise<Started> start(Environment environment, int) override {
    co_await untilItAnswers();
    if (runtime.running != 0) co_return Started{runtime.running, true};
    ++runtime.starts;
    if (runtime.cannotStart) fail(ErrorKind::kInternal, "a leftover is in the way");
    runtime.environment.clear();
    for (auto& e : environment) runtime.environment.add(kj::str(e));
    runtime.running = ++runtime.lastPid;
    KJ_IF_MAYBE (problem, runtime.loses) {
      auto said = kj::mv(*problem);
      runtime.loses = nullptr;
      runtime.answers = false;
      fail(ErrorKind::kUnavailable, said);
    }
    co_return Started{runtime.running, false};
  }
  kj::Promise<kj::Maybe<int>> find() override {
    co_await untilItAnswers();
    kj::Maybe<int> pid;
    if (runtime.running != 0) pid = runtime.running;
    co_return pid;
  }
  kj::Promise<kj::Maybe<int>> ended() override {
    while (runtime.running != 0) co_await runtime.awake->next();
    co_return runtime.status;
  }
  kj::Promise<void> signal(int number) override {
    co_await untilItAnswers();
    runtime.signals.push_back(number);
    if (runtime.running != 0 && (number == SIGTERM || number == SIGKILL)) runtime.exit(number);
  }
  kj::Promise<void> remove() override {
    ++runtime.removals;
    runtime.status = nullptr;
    return kj::READY_NOW;
  }

 private:
  ModelRuntime& runtime;
  kj::Promise<void> untilItAnswers() {
    while (!runtime.answers) co_await runtime.awake->next();
  }
};

class SupervisorBodyTest : public SupervisorTest {
 public:
  ~SupervisorBodyTest() noexcept override { supervisor = nullptr; }

 protected:
  ModelRuntime runtime;

  ServiceRestart restart = ServiceRestart::kAlways;

  void load(std::initializer_list<kj::StringPtr> dependsOn = {}) {
    auto d = define("c", dependsOn);
    d.restart = restart;
    d.command = kj::str("container c");
    d.environment = kj::arr(kj::str("PATH=/bin"));
    d.body = kj::heap<ModelBody>(runtime);
    supervisor->load(kj::mv(d));
  }
  void startIt() {
    load();
    supervisor->start("c");
    run();
  }
  // Ends the brain; the next one loads the same services.
  void nextBrain() {
    crashBrain();
    load();
    run();
  }
};

// Catches: a service that does its work again and again, one that is given up before it is done,
// and one that is reported as stopped when it is done.
TEST_F(SupervisorBodyTest, AServiceThatHasDoneItsWorkIsNotStartedAgain) {
  restart = ServiceRestart::kUntilSuccess;
  startIt();
  runtime.exit(7 << 8);
  run();
  EXPECT_EQ(2u, runtime.starts);
  events.clear();
  runtime.exit(0);
  advance(60 * kj::SECONDS);
  EXPECT_EQ(2u, runtime.starts);
  EXPECT_THAT(events,
              ElementsAre("c Finished Service stopped: Task c (PID 2) exited with status 0"));
  EXPECT_THAT(supervisor->problems(), IsEmpty());
  supervisor->start("c");
  run();
  EXPECT_EQ(3u, runtime.starts);
}

TEST_F(SupervisorBodyTest, AServiceThatRunsOnceIsNotStartedAgainByAnotherBrain) {
  restart = ServiceRestart::kNever;
  startIt();
  crashBrain();
  runtime.exit(7 << 8);
  load();
  run();
  advance(60 * kj::SECONDS);
  EXPECT_EQ(1u, runtime.starts);
  EXPECT_TRUE(supervisor->isUp("c")) << "dependants need not wait";
}

// Catches: events that differ from the documentation, a process beside the container.
TEST_F(SupervisorBodyTest, StartsEndsAndIsStartedAgain) {
  startIt();
  EXPECT_THAT(events, ElementsAre("c Initialized Service loaded", "c Preparing Running pre state",
                                  "c Preparing Creating service runner",
                                  "c Running Started task c (PID 1) for container c"));
  EXPECT_EQ(0u, machine.spawns);
  EXPECT_EQ("c1", runtime.environment[0]) << "that of the definition, joined with the user's";
  events.clear();
  runtime.exit(7 << 8);
  run();
  EXPECT_THAT(events, ElementsAre("c Waiting Task c (PID 1) exited with status 7; restarting",
                                  "c Running Started task c (PID 2) for container c"));
  EXPECT_EQ(1u, runtime.removals);
  auto stopped = supervisor->stop("c");
  EXPECT_TRUE(done(stopped));
  EXPECT_THAT(runtime.signals, ElementsAre(SIGTERM));
  EXPECT_EQ(2u, runtime.removals);
  EXPECT_EQ("c Finished Service stopped: Task c (PID 2) killed by signal 15 (Terminated)",
            events.back());
}

// Catches: a failed pull that is not reported, or that the supervisor retries for ever; a pull that
// prevents a stop.
TEST_F(SupervisorBodyTest, PreparingIsAnEventAndCanBeStopped) {
  runtime.cannotPrepare = kj::str("the registry has no such image");
  startIt();
  EXPECT_THAT(events, ElementsAre("c Initialized Service loaded", "c Preparing Running pre state",
                                  "c Preparing retrying in 5 s",
                                  "c Failed Pre state failed: the registry has no such image"));
  runtime.cannotPrepare = nullptr;
  runtime.gate = kj::Promise<void>(kj::NEVER_DONE);
  supervisor->start("c");
  run();
  EXPECT_EQ(rpc::ServiceState::PREPARING, state("c"));
  auto stopped = supervisor->stop("c");
  EXPECT_TRUE(done(stopped));
  EXPECT_EQ(0u, runtime.starts);
}

// Catches: a restart that continues without its dependencies, and a restart that cannot be stopped
// during a pull.
TEST_F(SupervisorBodyTest, ARestartPreparesOnceMore) {
  startIt();
  runtime.gate = kj::Promise<void>(kj::NEVER_DONE);
  runtime.exit(1 << 8);
  run();
  EXPECT_EQ(2u, runtime.prepared);
  EXPECT_EQ(1u, runtime.starts);
  auto stopped = supervisor->stop("c");
  EXPECT_TRUE(done(stopped));
  EXPECT_EQ(rpc::ServiceState::FINISHED, state("c"));
  EXPECT_EQ(1u, runtime.starts);
}

// Catches: a container that is not retried after its first start failed, and a container that is
// retried without pauses, even after a long run.
TEST_F(SupervisorBodyTest, AStartThatFailsIsTriedAgainMoreAndMoreSlowly) {
  for (bool ranBefore : {false, true}) {
    runtime.cannotStart = !ranBefore;
    if (!ranBefore) {
      startIt();
    } else {
      advance(60 * kj::SECONDS);
      runtime.cannotStart = true;
      runtime.exit(0);
    }
    auto before = runtime.starts;
    advance(30 * kj::SECONDS);
    EXPECT_LT(runtime.starts - before, 15u);
    EXPECT_GT(runtime.starts - before, 5u);
    EXPECT_THAT(events.back(), testing::StartsWith(
                                   "c Waiting Cannot start container c: a leftover is in the way"));
    runtime.cannotStart = false;
    advance(5 * kj::SECONDS);
    EXPECT_EQ(rpc::ServiceState::RUNNING, state("c"));
  }
}

// Catches: a container that is started twice, or counts as ended, after its runtime was killed
// together with the brain.
TEST_F(SupervisorBodyTest, ANewBrainAdoptsItAsSoonAsTheRuntimeAnswers) {
  startIt();
  runtime.answer(false);
  nextBrain();
  supervisor->start("c");  // as the boot does
  advance(60 * kj::SECONDS);
  EXPECT_THAT(events, ElementsAre("c Running Looking for container c (PID 1) after a restart of "
                                  "machined"));
  EXPECT_FALSE(supervisor->isUp("c"));
  runtime.answer(true);
  run();
  EXPECT_EQ("c Running Adopted running task c (PID 1) after a restart of machined", events.back());
  EXPECT_TRUE(supervisor->isUp("c"));
  EXPECT_EQ(1u, runtime.starts);
  runtime.exit(SIGKILL);
  run();
  EXPECT_EQ(2u, runtime.starts);
}

// Catches: a container that ended together with the brain and is not started again.
TEST_F(SupervisorBodyTest, ANewBrainStartsWhatEndedMeanwhile) {
  startIt();
  supervisor = nullptr;  // no brain has seen the end
  process1 = nullptr;
  runtime.exit(0);
  events.clear();
  startBrain();
  load();
  advance(1 * kj::SECONDS);
  EXPECT_EQ(2u, runtime.starts);
  EXPECT_THAT(events,
              testing::Contains("c Waiting Container c ended while machined was away; restarting"));
}

// Catches: a stop that is forgotten after a crash of the brain, or a start instead of the stop.
TEST_F(SupervisorBodyTest, ANewBrainFinishesAStop) {
  startIt();
  runtime.answer(false);
  auto stopped = supervisor->stop("c");
  run();
  {
    auto drop = kj::mv(stopped);
  }
  nextBrain();
  EXPECT_EQ(rpc::ServiceState::STOPPING, state("c"));
  EXPECT_THAT(runtime.signals, IsEmpty());
  runtime.answer(true);
  advance(1 * kj::SECONDS);
  EXPECT_EQ(rpc::ServiceState::FINISHED, state("c"));
  EXPECT_THAT(runtime.signals, ElementsAre(SIGTERM));
  EXPECT_EQ(1u, runtime.starts);
}

// Catches: a shim, a layer and a record that stay if a container ends during its stop, between two
// brains.
TEST_F(SupervisorBodyTest, NothingIsLeftOfWhatEndedDuringAStopWithoutABrain) {
  startIt();
  runtime.answer(false);
  auto stopped = supervisor->stop("c");
  run();
  {
    auto drop = kj::mv(stopped);
  }
  crashBrain();
  runtime.answers = true;
  runtime.exit(0);
  load();
  run();
  EXPECT_EQ(rpc::ServiceState::FINISHED, state("c"));
  EXPECT_EQ(1u, runtime.removals);
}

// Catches: a signal that is given up because the runtime is away, so that the stop never ends; a
// SIGKILL immediately after a late SIGTERM.
TEST_F(SupervisorBodyTest, AStopIsOverWhenTheRuntimeIsBack) {
  startIt();
  runtime.answer(false);
  auto stopped = supervisor->stop("c");
  advance(60 * kj::SECONDS);
  EXPECT_EQ(rpc::ServiceState::STOPPING, state("c"));
  EXPECT_THAT(runtime.signals, IsEmpty());
  runtime.answer(true);
  run();
  EXPECT_THAT(runtime.signals, ElementsAre(SIGTERM));
  EXPECT_EQ(rpc::ServiceState::FINISHED, state("c"));
}

// Catches: a container that runs without supervision, because it was stopped when the runtime had
// started it but could not report the start; a message that blames a signal that was not sent.
TEST_F(SupervisorBodyTest, WhatWasStartedUnheardIsStopped) {
  runtime.answer(false);
  startIt();
  auto stopped = supervisor->stop("c").then([]() { return kj::str(); },
                                            [](kj::Exception&& e) { return messageOf(e); });
  runtime.loses = kj::str("the connection was lost");
  runtime.answer(true);
  advance(20 * kj::SECONDS);
  EXPECT_EQ(1u, runtime.starts);
  EXPECT_EQ(
      "service \"c\" has not stopped within 20 s: Stopping as soon as container c has started",
      stopped.wait(scope));
  runtime.answer(true);
  run();
  EXPECT_EQ(rpc::ServiceState::FINISHED, state("c"));
  EXPECT_THAT(runtime.signals, ElementsAre(SIGTERM));
  EXPECT_EQ(1u, runtime.removals);
}

// Catches: a stop that ends before the search for the container has found it, so that it continues
// to run.
TEST_F(SupervisorBodyTest, AStopWaitsForTheSearch) {
  startIt();
  runtime.answer(false);
  nextBrain();
  auto stopped = supervisor->stop("c");
  EXPECT_FALSE(done(stopped));
  EXPECT_EQ("c Stopping Stopping as soon as container c is found", events.back());
  runtime.answer(true);
  EXPECT_TRUE(done(stopped));
  EXPECT_THAT(runtime.signals, ElementsAre(SIGTERM));
}

// Catches: a start that the predecessor had begun and that is done twice.
TEST_F(SupervisorBodyTest, ANewBrainAdoptsWhatItsPredecessorWasStarting) {
  runtime.answer(false);
  startIt();
  EXPECT_EQ(rpc::ServiceState::PREPARING, state("c"));
  crashBrain();
  runtime.running = runtime.lastPid = 9;  // the call arrived
  runtime.answer(true);
  load();
  run();
  EXPECT_EQ(0u, runtime.starts);
  EXPECT_EQ("c Running Adopted running task c (PID 9) after a restart of machined", events.back());
}

// Catches: a runtime that is stopped before the containers that it must stop.
TEST_F(SupervisorBodyTest, TheRuntimeIsStoppedAfterItsContainers) {
  supervisor->load(define("cri"));
  load({"cri"});
  supervisor->start("cri");
  supervisor->start("c");
  run();
  runtime.answer(false);
  auto stopped = supervisor->stopAll();
  run();
  EXPECT_TRUE(machine.runs("cri"));
  runtime.answer(true);
  EXPECT_TRUE(done(stopped));
  EXPECT_FALSE(machine.runs("cri"));
}

// Catches: an exit status that is reported as another one.
TEST(WaitStatus, IsThatOfWait) {
  EXPECT_EQ(7 << 8, waitStatus(7));
  EXPECT_EQ(SIGKILL, waitStatus(128 + SIGKILL));
  EXPECT_EQ(128 << 8, waitStatus(128));
  EXPECT_EQ(255 << 8, waitStatus(255));
}

}  // namespace
}  // namespace talos::machined
