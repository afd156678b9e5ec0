#include "machined/api/proc-text.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

namespace talos::machined {
namespace {

// Catches: lines lost or reordered, and counts without a unit that are treated as kilobytes.
TEST(Proc, MeminfoKeepsEveryLineInOrder) {
  auto lines = parseMeminfo(
      "MemTotal:       16316412 kB\nActive(anon):         12 kB\nHugePages_Total:       3\n"
      "broken\nNoNumber: x kB\nDirectMap1G:    8388608 kB");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].name, "MemTotal");
  EXPECT_EQ(lines[0].value, 16316412u);
  EXPECT_EQ(lines[0].unit, "kB");
  EXPECT_EQ(lines[1].name, "Active(anon)");
  EXPECT_EQ(lines[2].name, "HugePages_Total");
  EXPECT_EQ(lines[2].unit, "");
  EXPECT_EQ(lines[3].name, "DirectMap1G");
}

// Catches: mount points with blanks cut short or shown escaped.
TEST(Proc, MountsUndoEscapes) {
  auto mounts = parseMounts(
      "/dev/loop0 / squashfs ro 0 0\ntmpfs /run/a\\040b\\134c tmpfs rw 0 0\nhalf\nx /end\\04 y\n");
  ASSERT_EQ(mounts.size(), 3u);
  EXPECT_EQ(mounts[0].filesystem, "/dev/loop0");
  EXPECT_EQ(mounts[0].path, "/");
  EXPECT_EQ(mounts[1].path, "/run/a b\\c");
  EXPECT_EQ(mounts[2].path, "/end\\04");
}

constexpr kj::StringPtr kTail =
    " S 1 42 42 0 -1 4194560 10 20 30 40 150 50 7 8 20 0 3 0 12345 9876543 210 "
    "18446744073709551615 "
    "1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n"_kj;

// Catches: fields counted from the wrong place when the command looks like fields.
TEST(Proc, StatReadsAnyCommand) {
  for (kj::StringPtr command : {"apid"_kj, "a b) S 9 (c"_kj, ""_kj, "new\nline"_kj}) {
    auto stat = KJ_ASSERT_NONNULL(parseStat(kj::str("42 (", command, ")", kTail)), command);
    EXPECT_EQ(stat.pid, 42);
    EXPECT_EQ(stat.ppid, 1);
    EXPECT_EQ(stat.state, 'S');
    EXPECT_EQ(stat.command, command);
    EXPECT_EQ(stat.cpuTicks, 200u);
    EXPECT_EQ(stat.threads, 3u);
    EXPECT_EQ(stat.virtualBytes, 9876543u);
    EXPECT_EQ(stat.residentPages, 210u);
  }
}

// Catches: a truncated text (the process exited while it was being read) that is treated as a
// process of zeros.
TEST(Proc, StatThatIsCutOffIsNone) {
  auto whole = kj::str("42 (apid)", kTail);
  for (kj::StringPtr text : {""_kj, "42"_kj, "42 (apid"_kj, "42 (apid)"_kj, "42 (apid) S 1 2 3"_kj,
                             "x (apid) S 1"_kj, ")("_kj}) {
    EXPECT_TRUE(parseStat(text) == nullptr) << text.cStr();
  }
  EXPECT_TRUE(parseStat(whole) != nullptr);
}

// Catches: arguments without blanks between them, or blanks at the end because of the last NUL.
TEST(Proc, ArgumentsAreJoinedByBlanks) {
  EXPECT_EQ(parseArguments(kj::StringPtr("/sbin/init\0--x\0y z\0"_kj)), "/sbin/init --x y z");
  EXPECT_EQ(parseArguments(nullptr), "");
}

// Catches: a key that is the beginning of another, and numbers that do not fit.
TEST(Proc, FlatKeysAreWholeWords) {
  auto text = "usage_usec_total 1\nusage_usec 25\nuser_usec 18446744073709551616\nlast"_kj;
  EXPECT_EQ(KJ_ASSERT_NONNULL(flatKey(text, "usage_usec")), 25u);
  EXPECT_TRUE(flatKey(text, "user_usec") == nullptr);
  EXPECT_TRUE(flatKey(text, "last") == nullptr);
  EXPECT_TRUE(flatKey(text, "absent") == nullptr);
  EXPECT_EQ(KJ_ASSERT_NONNULL(parseNumber("18446744073709551615\n"_kj)), UINT64_MAX);
  EXPECT_TRUE(parseNumber("1 2"_kj) == nullptr);
  EXPECT_TRUE(parseNumber("-1"_kj) == nullptr);
}

}  // namespace
}  // namespace talos::machined
