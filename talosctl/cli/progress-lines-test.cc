#include "talosctl/cli/progress-lines.h"

#include <gtest/gtest.h>

#include "talosctl/cli/test-console.h"

namespace talos::talosctl {
namespace {

TEST(Progress, PlainLinesForEachChangeWhenPiped) {
  TestConsole console;
  kj::String names[] = {kj::str("a"), kj::str("b")};
  Progress progress(console, names);
  progress.set(0, "booting");
  progress.set(0, "booting");  // no change, no line
  progress.set(1, "off\x1b[2J");
  EXPECT_EQ(console.takeErr(), "a: booting\nb: off\\x1b[2J\n");
}

// Catches: control sequences on a terminal that shows them as text.
TEST(Progress, ADumbTerminalGetsPlainLines) {
  TestConsole console;
  console.terminal = console.dumb = true;
  kj::String names[] = {kj::str("a")};
  Progress progress(console, names);
  progress.set(0, "booting");
  progress.set(0, "running");
  EXPECT_EQ(console.takeErr(), "a: booting\na: running\n");
}

// Catches: a failure that is printed twice, and a line that still says that it waits.
TEST(Progress, AFailureIsAStateOfATerminalOnly) {
  TestConsole console;
  kj::String names[] = {kj::str("a")};
  Progress piped(console, names);
  piped.set(0, "booting");
  piped.fail(0);
  EXPECT_EQ(console.takeErr(), "a: booting\n");
  console.terminal = true;
  Progress progress(console, names);
  progress.fail(0);
  EXPECT_EQ(console.takeErr(), "\ra: failed\x1b[K\n");
}

// Catches lines that pile up on a terminal, or that wrap and break the count of lines to move up.
TEST(Progress, RewritesInPlaceOnATerminal) {
  TestConsole console;
  console.terminal = true;
  kj::String names[] = {kj::str("a"), kj::str("b")};
  Progress progress(console, names);
  progress.set(0, "x");
  EXPECT_EQ(console.takeErr(), "\ra: x\x1b[K\n\rb: …\x1b[K\n");
  progress.set(1, "y");
  EXPECT_EQ(console.takeErr(), "\x1b[2A\ra: x\x1b[K\n\rb: y\x1b[K\n");
  progress.set(1, kj::str(kj::repeat('z', 200)));
  EXPECT_EQ(console.takeErr(),
            kj::str("\x1b[2A\ra: x\x1b[K\n\rb: ", kj::repeat('z', 76), "\x1b[K\n"));
}

constexpr kj::StringPtr kErase = "\r\x1b[K"_kj;

struct Waits : public ::testing::Test {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  TestConsole console;
  ~Waits() noexcept override {}
  Waits() { console.terminal = true; }
  // Advances the clock by `time`, in the steps at which the line turns.
  void later(kj::Duration time) {
    for (auto end = timer.now() + time; timer.now() < end;) {
      timer.advanceTo(timer.now() + 200 * kj::MILLISECONDS);
      while (scope.poll() > 0) {
      }
    }
  }
  kj::String err() { return console.takeErr(); }
};

// Catches: a line that flickers for every quick command, a line that does not turn, a line that
// stays before printed text.
TEST_F(Waits, AfterASecondOfSilenceAndGoneBeforeText) {
  WaitLine line(console, timer);
  line.waiting("waiting for 10.0.0.2");
  later(800 * kj::MILLISECONDS);
  EXPECT_EQ(err(), "");
  later(200 * kj::MILLISECONDS);
  EXPECT_EQ(err(), "\r◳ waiting for 10.0.0.2: 1s\x1b[K");
  later(200 * kj::MILLISECONDS);
  EXPECT_EQ(err(), "\r◲ waiting for 10.0.0.2: 1s\x1b[K");
  line.waiting("waiting for 10.0.0.3\x1b[2J");  // still no output
  later(60 * kj::SECONDS);
  auto text = err();
  EXPECT_TRUE(text.endsWith(" waiting for 10.0.0.3\\x1b[2J: 1m1s\x1b[K")) << text.cStr();
  line.out("NODE\n"_kj);
  EXPECT_EQ(err(), kErase);
  EXPECT_EQ(console.takeOut(), "NODE\n");
  later(800 * kj::MILLISECONDS);
  line.err("WARNING\n"_kj);
  EXPECT_EQ(err(), "WARNING\n");
  later(1 * kj::SECONDS);
  EXPECT_TRUE(err().endsWith(": 1s\x1b[K"));
}

// Catches: a line that overwrites a question, or a line that another unit rewrites.
TEST_F(Waits, NotBehindALineThatHasNoEnd) {
  WaitLine line(console, timer);
  line.waiting("waiting");
  line.err("replace the context? [y/N] "_kj);
  later(5 * kj::SECONDS);
  EXPECT_EQ(err(), "replace the context? [y/N] ");
  line.out("y\n"_kj);
  later(1 * kj::SECONDS);
  EXPECT_TRUE(err().endsWith(" waiting: 1s\x1b[K"));
}

// Catches: a quiet stream, or the user's editor, with a line below that suggests a missing answer.
TEST_F(Waits, NotWhenNothingIsWaitedFor) {
  WaitLine line(console, timer);
  later(5 * kj::SECONDS);
  EXPECT_EQ(err(), "");
  line.waiting("waiting");
  later(1 * kj::SECONDS);
  EXPECT_NE(err(), "");
  line.waiting("");
  EXPECT_EQ(err(), kErase);
  later(5 * kj::SECONDS);
  EXPECT_EQ(err(), "");
  line.waiting("waiting");  // the time starts again
  later(1 * kj::SECONDS);
  EXPECT_TRUE(err().endsWith(" waiting: 1s\x1b[K"));
}

// Catches: control sequences in a file with errors, and a result in a pipe that contains a cleared
// line.
TEST_F(Waits, OnlyOnATerminal) {
  console.errRedirected = true;
  {
    WaitLine line(console, timer);
    line.waiting("waiting");
    later(5 * kj::SECONDS);
  }
  EXPECT_EQ(err(), "");
}

TEST_F(Waits, LeavesNothingBehind) {
  {
    WaitLine line(console, timer);
    line.waiting(kj::str(kj::repeat('w', 200)));
    later(1 * kj::SECONDS);
    EXPECT_EQ(err(), kj::str("\r◳ ", kj::repeat('w', 77), "\x1b[K"));
  }
  EXPECT_EQ(err(), kErase);
}

}  // namespace
}  // namespace talos::talosctl
