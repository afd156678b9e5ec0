#include "machined/boot/sequencer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/error.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SequencerTest : public testing::Test, public SequenceListener {
 public:
  void sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error, bool locked) override {
    events.push_back(kj::str("sequence ", name, " ", word(action), error == nullptr ? "" : " ",
                             error, locked ? " [locked]" : "")
                         .cStr());
  }
  void phase(kj::StringPtr name, rpc::Action action) override {
    events.push_back(kj::str("phase ", name, " ", word(action)).cStr());
  }
  void task(kj::StringPtr name, rpc::Action action) override {
    events.push_back(kj::str("task ", name, " ", word(action)).cStr());
  }
  void line(kj::StringPtr text) override { lines.push_back(text.cStr()); }

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::vector<std::string> events, lines;
  Sequencer sequencer{*this, timer, timer};

  ~SequencerTest() noexcept override {}

  static kj::StringPtr word(rpc::Action a) {
    return a == rpc::Action::START ? "start"_kj : a == rpc::Action::STOP ? "stop"_kj : "noop"_kj;
  }
  void advance(kj::Duration d) {
    scope.poll();
    timer.advanceTo(timer.now() + d);
    scope.poll();
  }
  Task wait(kj::StringPtr name, kj::Duration d) {
    return {kj::str(name), [this, d]() { return timer.afterDelay(d); }};
  }
  Task broken(kj::StringPtr name, kj::StringPtr why) {
    return {kj::str(name),
            [why]() -> kj::Promise<void> { return error(ErrorKind::kNotFound, why); }};
  }
  Task endless(kj::StringPtr name, bool& dropped) {
    return {kj::str(name), [&dropped]() -> kj::Promise<void> {
              return kj::Promise<void>(kj::NEVER_DONE).attach(kj::defer([&]() { dropped = true; }));
            }};
  }
  template <typename... T>
  static Phase phaseOf(kj::StringPtr name, T&&... tasks) {
    Phase p{kj::str(name), {}};
    (p.tasks.add(kj::mv(tasks)), ...);
    return p;
  }
  template <typename... P>
  static Sequence sequenceOf(kj::StringPtr name, P&&... phases) {
    Sequence s{kj::str(name), {}};
    (s.phases.add(kj::mv(phases)), ...);
    return s;
  }
  kj::String errorOf(kj::Promise<void> p) {
    scope.poll();
    if (!p.poll(scope)) return kj::str("<pending>");
    kj::String text = kj::str("<fine>");
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { p.wait(scope); })) {
      text = kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e));
    }
    return text;
  }
};

// Catches: events and lines that are missing or out of order; the end of a phase sent as a start.
TEST_F(SequencerTest, TellsWhatItDoes) {
  auto p = sequencer.run(sequenceOf("boot", phaseOf("one", wait("a", 1500 * kj::MILLISECONDS)),
                                    phaseOf("two", wait("b", 20 * kj::MILLISECONDS))),
                         Start::kPlain);
  scope.poll();
  EXPECT_EQ("boot"_kj, sequencer.currentSequence());
  EXPECT_EQ("one"_kj, sequencer.currentPhase());
  advance(1500 * kj::MILLISECONDS);
  EXPECT_EQ("two"_kj, sequencer.currentPhase());
  advance(20 * kj::MILLISECONDS);
  p.wait(scope);
  EXPECT_EQ(""_kj, sequencer.currentSequence());
  EXPECT_THAT(events,
              ElementsAre("sequence boot start", "phase one start", "task a start", "task a stop",
                          "phase one stop", "phase two start", "task b start", "task b stop",
                          "phase two stop", "sequence boot stop"));
  EXPECT_THAT(lines, ElementsAre("sequence boot: 2 phases", "phase one (1/2): 1 task",
                                 "task a (1/1): starting", "task a (1/1): done, 1.50 s",
                                 "phase one (1/2): done, 1.50 s", "phase two (2/2): 1 task",
                                 "task b (1/1): starting", "task b (1/1): done, 20 ms",
                                 "phase two (2/2): done, 20 ms", "sequence boot: done, 1.52 s"));
}

// Catches: tasks of a phase that run one after the other.
TEST_F(SequencerTest, TasksOfAPhaseRunInParallel) {
  auto p = sequencer.run(
      sequenceOf("s", phaseOf("p", wait("a", 1 * kj::SECONDS), wait("b", 1 * kj::SECONDS))),
      Start::kPlain);
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(p.poll(scope));
}

// Catches: a failure that interrupts parallel tasks; a later error reported instead of the first; a
// next phase that runs nevertheless.
TEST_F(SequencerTest, TheFirstErrorEndsTheSequenceAfterItsPhase) {
  bool finished = false;
  bool ran = false;
  Task slow{kj::str("slow"),
            [&]() { return timer.afterDelay(5 * kj::SECONDS).then([&]() { finished = true; }); }};
  Task later{kj::str("later"), [&]() -> kj::Promise<void> {
               return timer.afterDelay(1 * kj::SECONDS).then([]() {
                 fail(ErrorKind::kInternal, "second");
               });
             }};
  Task next{kj::str("next"), [&]() -> kj::Promise<void> {
              ran = true;
              return kj::READY_NOW;
            }};
  auto p = sequencer.run(
      sequenceOf("boot", phaseOf("one", kj::mv(slow), kj::mv(later), broken("bad", "no disk")),
                 phaseOf("two", kj::mv(next))),
      Start::kPlain);
  advance(1 * kj::SECONDS);
  EXPECT_FALSE(p.poll(scope));
  advance(4 * kj::SECONDS);
  EXPECT_TRUE(finished);
  EXPECT_FALSE(ran);
  EXPECT_EQ("NotFound: phase one: task bad: no disk", errorOf(kj::mv(p)));
  EXPECT_EQ("sequence boot noop phase one: task bad: no disk", events.back());
  EXPECT_EQ("sequence boot stop", events[events.size() - 2]);
  EXPECT_EQ(""_kj, sequencer.currentSequence());
}

// Catches: a task that throws at once, outside of its promise, and crashes the brain.
TEST_F(SequencerTest, ATaskMayThrowSynchronously) {
  Task task{kj::str("t"), []() -> kj::Promise<void> { fail(ErrorKind::kInvalidArgument, "bad"); }};
  EXPECT_EQ("InvalidArgument: phase p: task t: bad",
            errorOf(sequencer.run(sequenceOf("s", phaseOf("p", kj::mv(task))), Start::kPlain)));
}

// Catches: two sequences at once, a refusal without its event, a refusal that releases the lock.
TEST_F(SequencerTest, PlainMeetsTheLock) {
  auto first =
      sequencer.run(sequenceOf("boot", phaseOf("p", wait("a", 1 * kj::SECONDS))), Start::kPlain);
  scope.poll();
  for (int i = 0; i < 2; i++) {
    EXPECT_EQ("Conflict: locked: sequence boot is running",
              errorOf(sequencer.run(sequenceOf("upgrade", phaseOf("p", wait("b", 0 * kj::SECONDS))),
                                    Start::kPlain)));
    EXPECT_EQ("sequence upgrade noop locked: sequence boot is running [locked]", events.back());
  }
  advance(1 * kj::SECONDS);
  first.wait(scope);
  auto second =
      sequencer.run(sequenceOf("upgrade", phaseOf("p", wait("b", 0 * kj::SECONDS))), Start::kPlain);
  advance(0 * kj::SECONDS);
  second.wait(scope);
}

// Catches: a reboot that waits for a boot which never ends; a pre-empted task that continues.
TEST_F(SequencerTest, TakeOverDropsTheRunningTasks) {
  bool dropped = false;
  auto boot = sequencer.run(sequenceOf("boot", phaseOf("p", endless("a", dropped))), Start::kPlain);
  scope.poll();
  auto reboot = sequencer.run(sequenceOf("reboot", phaseOf("p", wait("b", 1 * kj::SECONDS))),
                              Start::kTakeOver);
  scope.poll();
  EXPECT_TRUE(dropped);
  EXPECT_EQ("reboot"_kj, sequencer.currentSequence());
  EXPECT_EQ("FailedPrecondition: sequence boot was cancelled: reboot took over",
            errorOf(kj::mv(boot)));
  advance(1 * kj::SECONDS);
  reboot.wait(scope);
  EXPECT_EQ(""_kj, sequencer.currentSequence());
  EXPECT_THAT(events, testing::Contains("sequence boot stop"));
}

// Catches: a takeover without a running sequence that fails or waits.
TEST_F(SequencerTest, TakeOverOfNothing) {
  auto p = sequencer.run(sequenceOf("reboot", phaseOf("p", wait("b", 0 * kj::SECONDS))),
                         Start::kTakeOver);
  advance(0 * kj::SECONDS);
  EXPECT_TRUE(p.poll(scope));
}

// Catches: two take-overs that wait for each other, or the earlier one winning.
TEST_F(SequencerTest, OfTwoTakeOversTheLaterWins) {
  bool a = false, b = false;
  auto boot = sequencer.run(sequenceOf("boot", phaseOf("p", endless("a", a))), Start::kPlain);
  auto reboot =
      sequencer.run(sequenceOf("reboot", phaseOf("p", endless("b", b))), Start::kTakeOver);
  auto shutdown = sequencer.run(sequenceOf("shutdown", phaseOf("p", wait("c", 1 * kj::SECONDS))),
                                Start::kTakeOver);
  scope.poll();
  EXPECT_EQ("shutdown"_kj, sequencer.currentSequence());
  advance(1 * kj::SECONDS);
  shutdown.wait(scope);
  EXPECT_THAT(errorOf(kj::mv(reboot)).cStr(), HasSubstr("shutdown took over"));
  EXPECT_THAT(errorOf(kj::mv(boot)).cStr(), HasSubstr("took over"));
}

// Catches: a crash of the brain when a task reboots the machine, and so takes over from its own
// sequence.
TEST_F(SequencerTest, ATaskMayTakeOverItsOwnSequence) {
  kj::Vector<kj::Promise<void>> started;
  Task task{
      kj::str("t"), [&]() -> kj::Promise<void> {
        started.add(sequencer.run(sequenceOf("reboot", phaseOf("p", wait("b", 0 * kj::SECONDS))),
                                  Start::kTakeOver));
        return kj::NEVER_DONE;
      }};
  auto boot = sequencer.run(sequenceOf("boot", phaseOf("p", kj::mv(task))), Start::kPlain);
  advance(0 * kj::SECONDS);
  ASSERT_EQ(1u, started.size());
  started[0].wait(scope);
}

// Catches: a lock that stays held after its caller has gone.
TEST_F(SequencerTest, DroppingTheCallReleasesTheLock) {
  bool dropped = false;
  {
    auto boot =
        sequencer.run(sequenceOf("boot", phaseOf("p", endless("a", dropped))), Start::kPlain);
    scope.poll();
  }
  EXPECT_TRUE(dropped);
  EXPECT_EQ(""_kj, sequencer.currentSequence());
  EXPECT_EQ("sequence boot stop", events.back());
}

}  // namespace
}  // namespace talos::machined
