// Process 1 beside a brain that hangs, and without a brain.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/reboot.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "machined/process1/init/init-harness.h"
#include "machined/process1/init/init-loop.h"
#include "machined/process1/init/machine-shutdown.h"

namespace talos::process1 {
namespace {

Harness::Options quick() {
  Harness::Options options;
  options.tickMs = 20;
  options.missedBeats = 50;  // a second: this process may have to wait for the processor
  options.missedAtStart = 100;
  options.termGraceMs = 100;
  return options;
}

int64_t milliseconds() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1000 + t.tv_nsec / 1'000'000;
}

void beat(int socket) {
  send(socket, RequestKind::kBeat, 1, "");
}
// Sends beats, as a live brain does, for `ms`.
void beatFor(int socket, int64_t ms) {
  for (int64_t end = milliseconds() + ms; milliseconds() < end;) {
    beat(socket);
    struct timespec pause = {0, 20'000'000};
    nanosleep(&pause, nullptr);
  }
}

bool endsWith(Harness& harness, int sign) {
  int status = harness.waitForEnd();
  return WIFSIGNALED(status) && WTERMSIG(status) == sign;
}
constexpr int kRebooted = SIGHUP, kPoweredOff = SIGINT;  // as a pid namespace shows it

// Catches: a brain that was stopped, or waits for a dead disk, and a machine that cannot be
// reached.
TEST(BrainWatch, KillsAndRestartsABrainThatHangs) {
  Harness harness(quick());
  auto brain = harness.next();
  inventory(brain.socket);
  beat(brain.socket);
  ASSERT_EQ(0, kill(brain.pid, SIGSTOP));
  harness.waitForConsole("/child hangs: no sign of life for 1 s; killing it");
  auto next = harness.next();
  EXPECT_NE(brain.pid, next.pid);
  EXPECT_EQ(1u, inventory(next.socket)[0].report.sequence);
  harness.waitForConsole("signal 9");
}

// Catches: a brain that hangs, and is killed without a chance to report where.
TEST(BrainWatch, ABrainThatHangsIsAbortedFirst) {
  Harness harness(quick());
  auto brain = harness.next();
  inventory(brain.socket);
  beat(brain.socket);
  harness.waitForConsole("/child hangs: no sign of life for 1 s; killing it");
  harness.next();
  harness.waitForConsole("signal 6");
}

// Catches: a brain that hangs before its first beat; a brain that is killed during its recovery.
TEST(BrainWatch, ABrainHasMoreTimeToStart) {
  auto options = quick();
  Harness harness(options);
  int64_t started = milliseconds();
  auto brain = harness.next();
  auto next = harness.next();
  EXPECT_GE(milliseconds() - started, options.missedAtStart * options.tickMs);
  EXPECT_NE(brain.pid, next.pid);
}

// Catches: a live brain that is killed.
TEST(BrainWatch, ABrainThatBeatsLives) {
  auto options = quick();
  Harness harness(options);
  auto brain = harness.next();
  inventory(brain.socket);
  beatFor(brain.socket, 2 * options.missedAtStart * options.tickMs);
  EXPECT_EQ(0, kill(brain.pid, 0));
  sendSpawn(brain.socket, 7, "x", harness.child({"exit", "0"}));
  EXPECT_EQ(7u, receive(brain.socket).report.id);
}

// Catches: a false alarm after the whole machine was suspended (here only process 1 is stopped,
// while the clock continues).
TEST(BrainWatch, AMachineThatStoodStillIsNoBrainThatHangs) {
  auto options = quick();
  Harness harness(options);
  auto brain = harness.next();
  inventory(brain.socket);
  for (int i = 0; i < 2; ++i) {
    beat(brain.socket);
    ASSERT_EQ(0, kill(harness.pid(), SIGSTOP));
    struct timespec pause = {1, 500'000'000};  // longer than a brain may take
    nanosleep(&pause, nullptr);
    ASSERT_EQ(0, kill(harness.pid(), SIGCONT));
    beatFor(brain.socket, 60);
  }
  EXPECT_EQ(0, kill(brain.pid, 0));
  send(brain.socket, RequestKind::kDrop, 9, "none");
  EXPECT_EQ(9u, receive(brain.socket).report.id);
}

// Catches: a power action that is lost with the brain that it was reported to.
TEST(BrainWatch, APowerActionIsRepeatedUntilItIsBegun) {
  Harness harness;
  auto brain = harness.next();
  inventory(brain.socket);
  ASSERT_EQ(0, kill(harness.pid(), SIGINT));
  EXPECT_EQ(ReportKind::kPowerAction, receive(brain.socket).report.kind);
  harness.killNow(brain.pid);
  auto next = harness.next();
  inventory(next.socket);
  auto again = receive(next.socket);
  EXPECT_EQ(ReportKind::kPowerAction, again.report.kind);
  EXPECT_EQ(static_cast<int>(PowerAction::kReboot), again.report.code);
  send(next.socket, RequestKind::kBegun, 1, "", static_cast<uint32_t>(PowerAction::kReboot));
  send(next.socket, RequestKind::kDrop, 2, "none");
  EXPECT_EQ(2u, receive(next.socket).report.id);
  harness.killNow(next.pid);
  auto third = harness.next();
  inventory(third.socket);
  send(third.socket, RequestKind::kDrop, 3, "none");
  EXPECT_EQ(3u, receive(third.socket).report.id) << "told again though it was begun";
}

// Catches: a machine that cannot be switched off because its brain does not answer: stopped, alive
// but not reading, or missing.
TEST(BrainWatch, APowerActionIsCarriedOutWithoutTheBrain) {
  for (bool reboot : {true, false}) {
    for (auto how : {"stopped", "deaf", "none"}) {
      auto options = quick();
      options.actionBeginsWithin = 50;
      options.brainExists = how != std::string("none");
      if (!options.brainExists) options.actionBeginsWithin = 1'000'000;  // nothing to wait for
      Harness harness(options);
      Harness::Reporter brain;
      if (options.brainExists) {
        brain = harness.next();
        inventory(brain.socket);
        beat(brain.socket);
      } else {
        harness.waitForConsole("could not be started");
      }
      if (how == std::string("stopped")) {
        ASSERT_EQ(0, kill(brain.pid, SIGSTOP));
      }
      ASSERT_EQ(0, kill(harness.pid(), reboot ? SIGINT : SIGPWR));
      if (how == std::string("deaf")) beatFor(brain.socket, 200);
      std::string what = reboot ? "reboot" : "shut down";
      harness.waitForConsole((options.brainExists ? "did not begin to " + what + " within 1 s"
                                                  : "cannot be started to " + what)
                                 .c_str());
      EXPECT_TRUE(endsWith(harness, reboot ? kRebooted : kPoweredOff)) << how;
    }
  }
}

// Catches: one failed start that is remembered for ever, so that the first press of the power
// button shuts down without asking a brain that works.
TEST(BrainWatch, ABrainThatStartsAtASecondTryIsAsked) {
  auto options = quick();
  options.brainExists = false;
  options.actionBeginsWithin = 1'000'000;
  Harness harness(options);
  harness.waitForConsole("could not be started");
  auto root = "/proc/" + std::to_string(harness.pid()) + "/root";
  std::filesystem::create_directories(root + "/no/such");
  std::filesystem::copy_file(root + Harness::kChild, root + "/no/such/brain");
  auto brain = harness.next();
  inventory(brain.socket);
  beat(brain.socket);
  ASSERT_EQ(0, kill(harness.pid(), SIGTERM));
  receive(brain.socket);
  send(brain.socket, RequestKind::kBegun, 1, "", static_cast<uint32_t>(PowerAction::kPowerOff));
  beatFor(brain.socket, 200);  // many ticks
  EXPECT_EQ(0, kill(harness.pid(), 0));
}

// Catches: a system on trial that stays although its brain never reports that it is healthy; a
// system that is confirmed, by this brain or its predecessor, and still rebooted.
TEST(BrainWatch, ATrialEnds) {
  for (bool settled : {false, true}) {
    auto options = quick();
    options.trial = settled ? 100 : 5;
    Harness harness(options);
    auto brain = harness.next();
    inventory(brain.socket);
    beat(brain.socket);
    if (settled) {
      int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
      send(brain.socket, RequestKind::kHold, 1, kSettled, 0, 0, {null});
      close(null);
      EXPECT_EQ(1u, receive(brain.socket).report.id);
      beatFor(brain.socket, 2500);  // longer than the trial
      send(brain.socket, RequestKind::kDrop, 2, "none");
      EXPECT_EQ(2u, receive(brain.socket).report.id) << "was told to reboot";
      continue;
    }
    auto report = receive(brain.socket).report;
    EXPECT_EQ(ReportKind::kPowerAction, report.kind);
    EXPECT_EQ(static_cast<int32_t>(PowerAction::kReboot), report.code);
    harness.waitForConsole("on trial and was not confirmed in time");
  }
}

// Catches: a system that took over without a reboot, never confirmed, and stays, because the system
// before it was; one that is confirmed and rebooted all the same; a limit of no ticks.
TEST(BrainWatch, ATrialWithoutARebootEnds) {
  for (bool settled : {false, true}) {
    Harness harness(quick());
    auto brain = harness.next();
    inventory(brain.socket);
    beat(brain.socket);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), limit = memfd_create("limit", MFD_CLOEXEC);
    send(brain.socket, RequestKind::kHold, 1, kSettled, 0, 0, {null});
    EXPECT_EQ(0, receive(brain.socket).report.code);
    send(brain.socket, RequestKind::kHold, 2, kTrialLimit, 0, 0, {limit});
    EXPECT_EQ(EINVAL, receive(brain.socket).report.code) << "an empty file";
    uint32_t ticks = settled ? 100 : 5;
    EXPECT_EQ(ssize_t{sizeof ticks}, pwrite(limit, &ticks, sizeof ticks, 0));
    send(brain.socket, RequestKind::kHold, 3, kTrialLimit, 0, 0, {limit});
    EXPECT_EQ(3u, receive(brain.socket).report.id);
    if (settled) {
      send(brain.socket, RequestKind::kHold, 4, kSettled, 0, 0, {null});
      EXPECT_EQ(4u, receive(brain.socket).report.id);
      beatFor(brain.socket, 2500);  // longer than the trial
      send(brain.socket, RequestKind::kDrop, 5, "none");
      EXPECT_EQ(5u, receive(brain.socket).report.id) << "was told to reboot";
    } else {
      EXPECT_EQ(ReportKind::kPowerAction, receive(brain.socket).report.kind);
      harness.waitForConsole("on trial and was not confirmed in time");
    }
    close(null);
    close(limit);
  }
}

// Catches: a trial that is not detected, or detected where there is no trial.
TEST(BrainWatch, TheCommandLineSaysWhetherThisIsATrial) {
  EXPECT_EQ(600u, trialSeconds("BOOT_IMAGE=/B/vmlinuz talos.slot=B talos.trial=600 panic=10\n"));
  EXPECT_EQ(90u, trialSeconds("talos.trial=90"));
  EXPECT_EQ(0u, trialSeconds("xtalos.trial=90 talos.trials=3"));
  EXPECT_EQ(0u, trialSeconds(""));
}

// Catches: a sequence that begins and hangs in its middle.
TEST(BrainWatch, APowerActionThatWasBegunEnds) {
  auto options = quick();
  options.actionBeginsWithin = 50;
  options.actionEndsWithin = 40;
  Harness harness(options);
  auto brain = harness.next();
  inventory(brain.socket);
  int64_t started = milliseconds();
  ASSERT_EQ(0, kill(harness.pid(), SIGTERM));
  receive(brain.socket);
  send(brain.socket, RequestKind::kBegun, 1, "", static_cast<uint32_t>(PowerAction::kPowerOff));
  beatFor(brain.socket, 600);
  EXPECT_GE(milliseconds() - started, 600);
  harness.waitForConsole("did not finish to shut down");
  EXPECT_TRUE(endsWith(harness, kPoweredOff));
}

}  // namespace
}  // namespace talos::process1
