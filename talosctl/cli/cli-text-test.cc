#include "talosctl/cli/cli-text.h"

#include <gtest/gtest.h>

#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {
namespace {

// Catches control characters that pass, and line ends or tabs that are lost.
TEST(Text, KeepsLinesAndEscapesTheRest) {
  EXPECT_EQ(printableText("a\tb\n\x1b[2J\r\xff\n"_kj), "a\tb\n\\x1b[2J\\x0d\\xff\n");
  EXPECT_EQ(printableText("a\r\n\r\nb\rc\r\r\nd\r"_kj), "a\n\nb\\x0dc\\x0d\nd\\x0d");
  EXPECT_EQ(printableText(""_kj), "");
  EXPECT_EQ(printableText("\n\n"_kj), "\n\n");
}

// Catches: half a character at the end; one character too many.
TEST(Text, FirstCharactersAreWholeOnes) {
  EXPECT_EQ(kj::str(firstCharacters("äöü"_kj, 2)), "äö");
  EXPECT_EQ(kj::str(firstCharacters("abc"_kj, 0)), "");
  EXPECT_EQ(kj::str(firstCharacters("abc"_kj, 3)), "abc");
  EXPECT_EQ(kj::str(firstCharacters("abc"_kj, 80)), "abc");
}

// Catches: UTF-8 on a terminal that cannot show it; a text that changes its width.
TEST(Text, AnotherLocaleThanUtf8GetsAscii) {
  EXPECT_FALSE(isUtf8Locale("C", "", "en_US.UTF-8"));
  EXPECT_FALSE(isUtf8Locale("", "POSIX", ""));
  EXPECT_FALSE(isUtf8Locale("", "", "de_DE.ISO-8859-1"));
  EXPECT_TRUE(isUtf8Locale("C.UTF-8", "C", "C"));
  EXPECT_TRUE(isUtf8Locale("", "", "en_GB.utf8"));
  EXPECT_TRUE(isUtf8Locale("", "", ""));
  EXPECT_EQ(asciiText("\x1b[1mCPU\x1b[0m █▌·· … ←→ ä\xff\n"_kj),
            "\x1b[1mCPU\x1b[0m #-.. . <> ??\n"_kj);
}

TEST(Text, FixedRoundsExactly) {
  EXPECT_EQ(fixed(0, 1000, 2), "0.00");
  EXPECT_EQ(fixed(1'005, 1'000, 2), "1.01");
  EXPECT_EQ(fixed(999'995, 1'000'000, 2), "1.00");
  EXPECT_EQ(fixed(18'446'744'073'709'551'615ull, 1'000'000'000, 2), "18446744073.71");
  EXPECT_EQ(fixed(7, 2, 0), "4");
}

TEST(Text, AgesAreRoundedAndNeverNegative) {
  EXPECT_EQ(age(0, 185'400'000'000), "3m5s");
  EXPECT_EQ(age(5'000'000'000, 0), "0s");
  EXPECT_EQ(durationText(1500 * kj::MILLISECONDS), "1500ms");
  EXPECT_EQ(durationText(90 * kj::SECONDS), "1m30s");
  EXPECT_EQ(rfc3339(1'615'000'000'000'000'000), "2021-03-06T03:06:40Z");
}

// The letters of Go's FileMode.String().
TEST(Text, Modes) {
  EXPECT_EQ(goMode(0040755), "drwxr-xr-x");
  EXPECT_EQ(goMode(0120777), "Lrwxrwxrwx");
  EXPECT_EQ(goMode(0100644), "-rw-r--r--");
  EXPECT_EQ(goMode(0020666), "Dcrw-rw-rw-");
  EXPECT_EQ(goMode(0060660), "Drw-rw----");
  EXPECT_EQ(goMode(0041777), "dtrwxrwxrwx");
  EXPECT_EQ(goMode(0104755), "urwxr-xr-x");
  EXPECT_EQ(goMode(0140600), "Srw-------");
  EXPECT_EQ(goMode(0010600), "prw-------");
}

TEST(Text, ModificationTimes) {
  setenv("TZ", "UTC", 1);
  FileColumns columns{.now = 1'615'000'000'000'000'000};
  EXPECT_EQ(modifiedText(1'614'988'805, columns), "Mar  6 00:00:05");
  EXPECT_EQ(modifiedText(1'515'000'000, columns), "Jan  3 2018 17:20");
  columns.humanize = true;
  EXPECT_EQ(modifiedText(1'615'000'000 - 7200, columns), "2 hours ago");
  EXPECT_EQ(modifiedText(1'615'000'000 - 86400, columns), "1 day ago");
  EXPECT_EQ(modifiedText(1'615'000'000, columns), "now");
}

}  // namespace
}  // namespace talos::talosctl
