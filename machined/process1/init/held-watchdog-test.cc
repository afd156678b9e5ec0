// The machine's watchdog, held by process 1. A pipe is the device: it shows each letter.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <string>

#include "machined/process1/init/held-watchdog.h"
#include "machined/process1/init/init-harness.h"

namespace talos::process1 {
namespace {

class HeldWatchdog : public testing::Test {
 protected:
  static Harness::Options fast() {
    Harness::Options options;
    options.tickMs = 20;
    options.termGraceMs = 100;
    return options;
  }
  // Hands the device over to process 1, and closes it in this process.
  Harness::Reporter holds(Harness& harness) {
    auto brain = harness.next();
    inventory(brain.socket);
    int ends[2];
    EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
    device = ends[0];
    send(brain.socket, RequestKind::kHold, 1, kWatchdog, 0, 0, {ends[1]});
    close(ends[1]);
    EXPECT_EQ(1u, receive(brain.socket).report.id);
    return brain;
  }
  // Returns the next letter; '.' after the device was closed, '?' if none came within 20 s.
  char letter() {
    struct pollfd waits = {device, POLLIN, 0};
    char c = '.';
    if (poll(&waits, 1, 20'000) != 1) return '?';
    return read(device, &c, 1) == 1 ? c : '.';
  }
  std::string rest() {
    std::string all;
    for (char c; (c = letter()) != '.' && c != '?';) all += c;
    return all;
  }
  void TearDown() override { close(device); }

  int device = -1;
};

// Catches: a held device that is not fed and runs out.
TEST_F(HeldWatchdog, IsFedOverACrashOfTheBrain) {
  Harness harness(fast());
  auto brain = holds(harness);
  for (int i = 0; i < 5; ++i) ASSERT_EQ('\0', letter());
  harness.killNow(brain.pid);
  auto next = harness.next();
  bool there = false;
  for (auto& report : inventory(next.socket)) {
    there = there || (report.report.kind == ReportKind::kHeld &&
                      report.report.name == std::string(kWatchdog));
    if (report.fd >= 0) close(report.fd);
  }
  EXPECT_TRUE(there);
  for (int i = 0; i < 5; ++i) ASSERT_EQ('\0', letter());
}

// Catches: a machine without a working brain that is kept alive for ever; a machine that is reset
// although its brains are only restarted and work again.
TEST_F(HeldWatchdog, IsFedOnlyWhileBrainsWork) {
  auto options = fast();
  options.unfedAfter = 100;
  options.missedBeats = options.missedAtStart = 1'000'000;
  Harness harness(options);
  auto brain = holds(harness);
  for (int i = 0; i < 150; ++i) {
    ASSERT_EQ('\0', letter());
    send(brain.socket, RequestKind::kBeat, 1, "");
  }
  // A request is no sign of work, nor is a new brain without a beat.
  harness.killNow(brain.pid);
  auto next = harness.next();
  inventory(next.socket);
  send(next.socket, RequestKind::kDrop, 2, "none");
  harness.waitForConsole("has not worked for 2 s; the watchdog is no longer fed");
  auto stale = [&] {
    std::string all;
    struct pollfd waits = {device, POLLIN, 0};
    char c;
    while (poll(&waits, 1, 0) == 1 && read(device, &c, 1) == 1) all += c;
    return all;
  };
  stale();
  struct timespec ticks = {0, 300'000'000};
  nanosleep(&ticks, nullptr);
  EXPECT_EQ("", stale());
  send(next.socket, RequestKind::kBeat, 3, "");
  ASSERT_EQ('\0', letter());
}

// Catches: a device that continues after the config has removed it, and resets the machine.
TEST_F(HeldWatchdog, IsStoppedWhenItIsDropped) {
  Harness harness(fast());
  auto brain = holds(harness);
  ASSERT_EQ('\0', letter());
  send(brain.socket, RequestKind::kDrop, 2, kWatchdog);
  EXPECT_EQ(2u, receive(brain.socket).report.id);
  auto all = rest();
  EXPECT_EQ('V', all.back()) << "letters: " << all.size();
}

// Catches: another descriptor that is written to.
TEST_F(HeldWatchdog, IsTheOneOfItsName) {
  Harness harness(fast());
  auto brain = harness.next();
  inventory(brain.socket);
  int ends[2];
  ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
  device = ends[0];
  send(brain.socket, RequestKind::kHold, 1, "watchdog/other", 0, 0, {ends[1]});
  close(ends[1]);
  EXPECT_EQ(1u, receive(brain.socket).report.id);
  send(brain.socket, RequestKind::kDrop, 2, "watchdog/other");
  EXPECT_EQ("", rest());
}

// Catches: a restart that is not watched; a machine that is reset after it was switched off.
TEST_F(HeldWatchdog, CoversARestartAndNothingElse) {
  for (int sign : {SIGINT, SIGTERM}) {  // ctrl-alt-del; switch off
    auto options = fast();
    options.actionBeginsWithin = 5;
    Harness harness(options);
    holds(harness);
    ASSERT_EQ(0, kill(harness.pid(), sign));
    harness.waitForEnd();
    auto all = rest();
    EXPECT_EQ(sign == SIGINT ? '\0' : 'V', all.back());
    close(device);
  }
  device = -1;
}

}  // namespace
}  // namespace talos::process1
