#include "talosctl/cli/table.h"

#include <gtest/gtest.h>

#include "common/testing/printing.h"

namespace talos {
namespace {

// Catches: columns that are not as wide as their widest cell, padding after the last cell.
TEST(Table, AlignsAsTheDocumentsPrintIt) {
  Table table({"NODE", "NAMESPACE", "TYPE", "ID", "VERSION", "SELF HOSTED"});
  table.add("172.20.0.2", "runtime", "BootstrapStatus", "control-plane", 2, true);
  EXPECT_EQ(
      kj::str("NODE         NAMESPACE   TYPE              ID              VERSION   SELF HOSTED\n"
              "172.20.0.2   runtime     BootstrapStatus   control-plane   2         true\n"),
      table.render());
}

// Catches: a stream that prints the header again, or that aligns with rows printed long before.
TEST(Table, StreamsRowsWithOneHeader) {
  Table table({"A", "B"}, 2);
  table.add("1", "x");
  EXPECT_EQ(kj::str("A  B\n1  x\n"), table.render());
  EXPECT_TRUE(table.empty());
  table.add("long", "y");
  EXPECT_EQ(kj::str("long  y\n"), table.render());
  EXPECT_EQ(kj::str(), table.render());
}

// Catches: a file name of a node that moves the reader's cursor, and bytes counted as columns.
TEST(Table, EscapesControlCharactersAndCountsCharacters) {
  Table table({"NAME", "N"}, 1);
  table.add("a\033[2J\n", "1");
  table.add("\xc3\xa4\xc3\xb6", "2");
  EXPECT_EQ(kj::str("NAME         N\n"
                    "a\\x1b[2J\\x0a 1\n"
                    "\xc3\xa4\xc3\xb6           2\n"),
            table.render());
  EXPECT_EQ(kj::str("a\\x1b[2J\\x0a"), printable("a\033[2J\n"));
}

// Catches: invalid, truncated or overlong UTF-8 and C1 controls that reach the terminal.
TEST(Printable, LetsOnlyTextThrough) {
  EXPECT_EQ(kj::str("\xe2\x94\x94 x"), printable("\xe2\x94\x94 x"));
  EXPECT_EQ(kj::str("\\xff"), printable("\xff"));
  EXPECT_EQ(kj::str("\\xe2\\x94"), printable("\xe2\x94"));
  EXPECT_EQ(kj::str("\\xc0\\xaf"), printable("\xc0\xaf"));
  EXPECT_EQ(kj::str("\\xed\\xa0\\x80"), printable("\xed\xa0\x80"));
  EXPECT_EQ(kj::str("\\xc2\\x9b"), printable("\xc2\x9b"));
}

// Catches: a leading zero unit, lost inner zeros, the sign in the middle.
TEST(HumanDuration, IsShort) {
  EXPECT_EQ(kj::str("0s"), humanDuration(0));
  EXPECT_EQ(kj::str("59s"), humanDuration(59));
  EXPECT_EQ(kj::str("3m5s"), humanDuration(185));
  EXPECT_EQ(kj::str("1h0m0s"), humanDuration(3600));
  EXPECT_EQ(kj::str("-1m1s"), humanDuration(-61));
  EXPECT_EQ(kj::str("2562047788015215h30m8s"), humanDuration(INT64_MIN).slice(1));
}

// Catches: an answer of a few hundred KiB that becomes gigabytes of blanks.
TEST(Table, AHugeCellDoesNotWidenEveryRow) {
  Table table({"A", "B"});
  constexpr size_t kRows = 2000, kHuge = 100'000;
  table.add(kj::str(kj::repeat('x', kHuge)), "b");
  for (size_t i = 1; i < kRows; ++i) table.add("a", "b");
  EXPECT_LT(table.render().size(), 4u << 20);
  Table usual({"A", "B"});
  usual.add("name", "b"), usual.add(kj::str(kj::repeat('x', 300)), "b");
  EXPECT_EQ(usual.render().size(), 3 * (300 + 3 + 1 + 1));
}

// Catches: a text that is read in another order than it has.
TEST(Table, DirectionsAreShown) {
  EXPECT_EQ(kj::str("a\\xe2\\x80\\xaeb"), printable("a\xe2\x80\xae"
                                                    "b"));
}

}  // namespace
}  // namespace talos
