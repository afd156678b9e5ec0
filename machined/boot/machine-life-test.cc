// The life of a machine over many brains, with a model of process 1 and a clock of the test.
#include "machined/boot/machine-life.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <string>

#include "common/base/error.h"
#include "common/testing/printing.h"
#include "common/testing/virtual-time.h"
#include "machined/process1/test-damaged-descriptors.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

// A sequence of one task, which runs until the test ends it.
struct Running {
  kj::String name;
  kj::Own<kj::PromiseFulfiller<void>> end;
};

struct Quiet final : SequenceListener {
  void sequence(kj::StringPtr, rpc::Action, kj::StringPtr, bool) override {}
  void phase(kj::StringPtr, rpc::Action) override {}
  void task(kj::StringPtr, rpc::Action) override {}
  void line(kj::StringPtr) override {}
};

struct MachineLifeTest : testing::Test {
  ~MachineLifeTest() noexcept override { crash(); }
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  FakeMachine machine;
  Quiet quiet;

  struct Brain final : private MachineLifeHost {
    MachineLifeTest& test;
    FakeProcess1 process1;
    Sequencer sequencer;
    MachineStatus status{[]() {}};
    MachineLife life;
    explicit Brain(MachineLifeTest& test)
        : test(test),
          process1(test.machine),
          sequencer(test.quiet, test.timer, kj::systemPreciseMonotonicClock()),
          life({.process1 = process1,
                .timer = test.timer,
                .sequencer = sequencer,
                .status = status,
                .host = *this}) {}

   private:
    Sequence sequence(kj::StringPtr name) override { return test.sequence(name); }
    void print(kj::StringPtr line, Tone tone) override {
      test.said.add(kj::str(line));
      test.alarms += tone == Tone::kAlarm;
    }
    void keepApi() override { ++test.apiKept; }
    void settled() override { ++test.settled; }
    kj::Promise<void> recordReason(kj::StringPtr reason) override {
      test.reasons.add(kj::str(reason, " after ", test.history()));
      auto paf = kj::newPromiseAndFulfiller<void>();
      test.written = kj::mv(paf.fulfiller);
      if (!test.slowDisk) KJ_ASSERT_NONNULL(test.written)->fulfill();
      return kj::mv(paf.promise);
    }
    bool mustInstall() override { return test.mustInstall; }
    bool mustReset() override { return test.mustReset; }
    void bootFailed(kj::StringPtr reasons) override { test.failures.add(kj::str(reasons)); }
  };
  kj::Maybe<kj::Own<Brain>> current;
  kj::Vector<kj::String> said;
  kj::Vector<Running> begun;
  unsigned apiKept = 0, settled = 0, alarms = 0;
  kj::Vector<kj::String> reasons, failures;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> written;  // the reason
  bool slowDisk = false;
  bool mustInstall = false, mustReset = false;

  Sequence sequence(kj::StringPtr name) {
    Sequence result{kj::str(name), {}};
    auto& phase = result.phases.add(Phase{kj::str("phase"), {}});
    phase.tasks.add(Task{kj::str("task"), [this, name]() {
                           auto paf = kj::newPromiseAndFulfiller<void>();
                           begun.add(Running{kj::str(name), kj::mv(paf.fulfiller)});
                           return kj::mv(paf.promise);
                         }});
    return result;
  }
  Brain& brain() { return *KJ_ASSERT_NONNULL(current); }
  void start() {
    current = kj::heap<Brain>(*this);
    brain().life.begin();
    scope.poll();
  }
  void crash() { current = nullptr; }
  void restart() {
    crash();
    start();
  }
  void end() {
    begun.back().end->fulfill();
    scope.poll();
  }
  void fail(kj::StringPtr why) {
    begun.back().end->reject(error(ErrorKind::kFailedPrecondition, why));
    scope.poll();
  }
  void pass(kj::Duration time) { advance(timer, scope, time); }
  // Returns all sequences that any brain has started.
  std::string history() {
    std::string text;
    for (auto& one : begun) text += (text.empty() ? "" : " ") + std::string(one.name.cStr());
    return text;
  }
  MachineStatus::Stage stage() { return brain().status.stage(); }
};

// Catches: a boot that stops between its sequences, and memory of the start that is not released.
TEST_F(MachineLifeTest, BeginsAndRuns) {
  start();
  EXPECT_EQ("initialize", history());
  EXPECT_EQ("initialize", brain().life.sequenceOrNext());
  end();
  EXPECT_EQ("initialize boot", history());
  EXPECT_EQ(MachineStatus::Stage::BOOTING, stage());
  end();
  EXPECT_EQ(MachineStatus::Stage::RUNNING, stage());
  EXPECT_EQ("", brain().life.sequenceOrNext());
  pass(4 * kj::SECONDS);
  EXPECT_EQ(0u, settled);
  pass(2 * kj::SECONDS);
  EXPECT_EQ(1u, settled);
}

// Catches: a new brain that repeats finished work, or leaves out unfinished work.
TEST_F(MachineLifeTest, ANewBrainGoesOnFromTheStartOfTheSequence) {
  start();
  restart();
  EXPECT_EQ("initialize initialize", history());
  end();
  restart();
  EXPECT_EQ("initialize initialize boot boot", history());
  end();
  restart();
  EXPECT_EQ("initialize initialize boot boot", history());
  EXPECT_EQ(MachineStatus::Stage::RUNNING, stage());
}

// Catches: a medium that boots instead of installing; a new brain that takes a half-finished
// installation for an installed machine; an installation that cannot be watched; a failed
// installation that is retried for ever.
TEST_F(MachineLifeTest, AMachineThatIsNotInstalledIsInstalled) {
  mustInstall = true;
  start();
  end();
  EXPECT_EQ("initialize install", history());
  EXPECT_EQ(1u, apiKept);
  mustInstall = false;  // STATE is mounted by then
  restart();
  EXPECT_EQ("initialize install install", history());
  fail("/dev/vda holds ext4");
  EXPECT_EQ(MachineStatus::Stage::FAILED, stage());
  restart();
  EXPECT_EQ("initialize install install", history());
}

// Catches: a machine that reboots because its boot failed, or does not report why, also after a
// crash.
TEST_F(MachineLifeTest, AFailureStaysAndIsReported) {
  start();
  fail("a.yaml:1: wrong\nb.yaml:2: wrong too");
  for (bool again : {false, true}) {
    if (again) restart();
    EXPECT_EQ(MachineStatus::Stage::FAILED, stage());
    auto problems = brain().status.problems();
    ASSERT_EQ(2u, problems.size());
    EXPECT_TRUE(problems[0].endsWith("a.yaml:1: wrong")) << problems[0].cStr();
    EXPECT_EQ("b.yaml:2: wrong too", problems[1]);
  }
  pass(1 * kj::HOURS);
  EXPECT_EQ("initialize", history());
  EXPECT_EQ(1u, apiKept);  // the next brain adopts it
  ASSERT_EQ(3u, said.size());
  EXPECT_TRUE(said[0].startsWith("problem: ")) << said[0].cStr();
  EXPECT_EQ(3u, alarms);
  ASSERT_EQ(1u, failures.size()) << "a system on trial makes way once";
  EXPECT_TRUE(failures[0].endsWith("a.yaml:1: wrong; b.yaml:2: wrong too")) << failures[0].cStr();
}

// Catches: a machine that continues booting, or reports a failure, after a request to shut down.
TEST_F(MachineLifeTest, GoingDownTakesOver) {
  start();
  brain().life.shutdown();
  scope.poll();
  EXPECT_EQ("initialize shutdown", history());
  EXPECT_EQ(MachineStatus::Stage::SHUTTING_DOWN, stage());
  EXPECT_EQ(0u, apiKept);
  EXPECT_EQ(0u, said.size());
}

// Catches: a promised reset that the next brain forgets, also if the previous brain had not begun
// to take the machine down; a promised reset that is taken for another kind of shutdown.
TEST_F(MachineLifeTest, AResetThatWasPromisedIsCarriedOn) {
  start();
  end();
  end();
  mustReset = true;  // and no answer
  restart();
  EXPECT_EQ("initialize boot reset", history());
  EXPECT_EQ(MachineStatus::Stage::RESETTING, stage());
  restart();
  EXPECT_EQ("initialize boot reset reset", history());
  brain().life.reboot();
  scope.poll();
  EXPECT_EQ("initialize boot reset reset reboot", history());
  restart();
  EXPECT_EQ("initialize boot reset reset reboot reboot", history());
}

// Catches: an answer to a reset that does not reach its caller, or that comes before the reset is
// certain.
TEST_F(MachineLifeTest, AResetAnswersFirst) {
  start();
  end();
  end();
  auto accepted = brain().life.acceptReset();
  EXPECT_TRUE(accepted.poll(scope));
  EXPECT_EQ("initialize boot", history());
  pass(100 * kj::MILLISECONDS);
  EXPECT_EQ("initialize boot reset", history());
  ASSERT_EQ(1u, reasons.size());
  EXPECT_EQ("reset asked for through the API after initialize boot", reasons[0]);
}

// Catches: a machine that shuts down before the reason is on disk, or not at all because the disk
// hangs; a new brain that replaces the true reason by another one.
TEST_F(MachineLifeTest, TheReasonIsWrittenFirst) {
  start();
  end();
  end();
  slowDisk = true;
  brain().life.acceptReboot().wait(scope);
  pass(1 * kj::SECONDS);
  EXPECT_EQ("initialize boot", history());
  KJ_ASSERT_NONNULL(written)->fulfill();
  scope.poll();
  EXPECT_EQ("initialize boot reboot", history());
  restart();
  ASSERT_EQ(1u, reasons.size());
  EXPECT_EQ("asked for through the API after initialize boot", reasons[0]);
  brain().life.shutdown();
  pass(6 * kj::SECONDS);
  EXPECT_EQ("initialize boot reboot reboot shutdown", history());
  ASSERT_EQ(2u, reasons.size());
  EXPECT_TRUE(reasons[1].startsWith("asked for at the machine")) << reasons[1].cStr();
}

// Catches: a machine that stays up because the brain died that was taking it down.
TEST_F(MachineLifeTest, ANewBrainTakesItDownAsWasAskedFor) {
  start();
  end();
  end();
  brain().life.reboot();
  scope.poll();
  restart();
  EXPECT_EQ("initialize boot reboot reboot", history());
  EXPECT_EQ(MachineStatus::Stage::REBOOTING, stage());
  brain().life.shutdown();
  scope.poll();
  restart();
  EXPECT_EQ("initialize boot reboot reboot shutdown shutdown", history());
}

// Catches: a crash that makes the machine forget a reboot that process 1 holds.
TEST_F(MachineLifeTest, AnIntendedRebootComes) {
  start();
  end();
  end();
  brain().life.intendReboot().wait(scope);
  EXPECT_EQ("initialize boot", history());
  EXPECT_EQ("reboot", brain().life.sequenceOrNext());
  restart();
  EXPECT_EQ("initialize boot reboot", history());
}

// Catches: a crash, or the end of the boot, that makes the machine forget a reboot that was
// promised to a client.
TEST_F(MachineLifeTest, AcceptedRebootOutlivesACrash) {
  for (bool reboot : {true, false}) {
    machine.drop();
    begun.clear();
    crash();
    start();
    end();
    (reboot ? brain().life.acceptReboot() : brain().life.acceptShutdown()).wait(scope);
    end();  // of the boot
    restart();
    EXPECT_EQ(reboot ? "initialize boot reboot" : "initialize boot shutdown", history());
  }
}

// Catches: an answer that is lost because the process that carries it ended first.
TEST_F(MachineLifeTest, CallerIsAnsweredBeforeTheShutdown) {
  start();
  brain().life.acceptReboot().wait(scope);
  pass(99 * kj::MILLISECONDS);
  EXPECT_EQ("initialize", history());
  pass(2 * kj::MILLISECONDS);
  EXPECT_EQ("initialize reboot", history());
  brain().life.acceptShutdown().wait(scope);
  pass(101 * kj::MILLISECONDS);
  EXPECT_EQ("initialize reboot shutdown", history());
}

// Catches: a reboot for a config, without a caller, that replaces a reset that was promised in the
// meantime, or a shutdown.
TEST_F(MachineLifeTest, ARebootForAConfigReplacesNoOtherShutdown) {
  for (bool resets : {true, false}) {
    machine.drop();
    begun.clear();
    crash();
    start();
    end();
    end();
    (resets ? brain().life.acceptReset() : brain().life.acceptShutdown()).wait(scope);
    brain().life.intendReboot().wait(scope);
    EXPECT_EQ(resets ? "reset" : "shutdown", brain().life.sequenceOrNext());
    brain().life.rebootSoon();
    pass(1 * kj::SECONDS);
    EXPECT_EQ(resets ? "initialize boot reset" : "initialize boot shutdown", history());
  }
}

// Catches: a machine whose shutdown failed, without a report.
TEST_F(MachineLifeTest, AShutdownThatFailsIsReported) {
  start();
  brain().life.reboot();
  scope.poll();
  fail("no such thing");
  ASSERT_EQ(1u, said.size());
  EXPECT_TRUE(said[0].startsWith("cannot shut down: ")) << said[0].cStr();
  EXPECT_EQ(MachineStatus::Stage::REBOOTING, stage());
}

// Catches: a damaged record of the progress that keeps the machine from starting.
TEST_F(MachineLifeTest, ProgressThatCannotBeReadIsNone) {
  for (auto& bad : garbage("held")) {
    crash();
    begun.clear();
    machine.keep("progress", kj::mv(bad.fd));
    start();
    EXPECT_EQ("initialize", history()) << bad.what.cStr();
  }
}

// Catches: a machine that runs on without a config, after its records were lost.
TEST_F(MachineLifeTest, BeginsAnewWhenTheRecordsAreLost) {
  start();
  end();
  end();
  crash();
  current = kj::heap<Brain>(*this);
  brain().life.begin(Records::kLost);
  scope.poll();
  EXPECT_EQ("initialize boot initialize", history());
  end();
  end();
  EXPECT_EQ(MachineStatus::Stage::RUNNING, stage());
  brain().life.reboot();
  scope.poll();
  crash();
  current = kj::heap<Brain>(*this);
  brain().life.begin(Records::kLost);
  scope.poll();
  EXPECT_EQ("initialize boot initialize boot reboot reboot", history());
}

}  // namespace
}  // namespace talos::machined
