#include "talosctl/cli/live-lines.h"

#include <gtest/gtest.h>

#include "talosctl/cli/test-console.h"

namespace talos::talosctl {
namespace {

constexpr TableLook kLook{.columns = 30, .color = false};

// Catches: tables that pile up; remains of a longer table before; an error that is overwritten.
TEST(LiveLines, AreRewrittenUntilSomethingElseIsWritten) {
  TestConsole console;
  console.terminal = true;
  LiveLines lines(console);
  lines.show("NODE   ID\na      1\n", kLook);
  EXPECT_EQ(console.takeOut(), "\rNODE   ID\x1b[K\n\ra      1\x1b[K\n\x1b[J");
  lines.show("NODE   ID\n", kLook);
  EXPECT_EQ(console.takeOut(), "\x1b[2A\rNODE   ID\x1b[K\n\x1b[J");
  console.err("b: no answer\n"_kj);
  lines.show("NODE   ID\n", kLook);
  EXPECT_EQ(console.takeOut(), "\rNODE   ID\x1b[K\n\x1b[J");
  lines.show("NODE   ID\n", kLook);
  EXPECT_EQ(console.takeOut(), "\x1b[1A\rNODE   ID\x1b[K\n\x1b[J");
}

// Catches: a line that wraps, or a table that is higher than the screen and would be drawn below
// itself; colours that are cut in the middle.
TEST(LiveLines, FitTheScreen) {
  TestConsole console;
  console.terminal = true;
  LiveLines lines(console);
  kj::Vector<kj::String> rows;
  rows.add(kj::str("NODE   READY\n"));
  for (int i = 10; i < 40; ++i) rows.add(kj::str("n", i, "    True\n"));
  lines.show(kj::strArray(rows, ""), kLook);
  auto text = console.takeOut();
  EXPECT_TRUE(text.endsWith("\rn30    True\x1b[K\n\r… and 9 more\x1b[K\n\x1b[J")) << text.cStr();
  lines.show("NODE   READY\na      True\n", {.columns = 9, .color = true});
  EXPECT_EQ(console.takeOut(), "\x1b[23A\rNODE  REA\x1b[K\n\ra     Tru\x1b[K\n\x1b[J");
  lines.show("NODE   READY\na      True\n", {.columns = 80, .color = true});
  EXPECT_EQ(console.takeOut(),
            "\x1b[2A\rNODE   READY\x1b[K\n\ra      \033[0;32mTrue\033[0m\x1b[K\n\x1b[J");
}

}  // namespace
}  // namespace talos::talosctl
