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

}  // namespace
}  // namespace talos::talosctl
