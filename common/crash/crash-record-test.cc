#include "common/crash/crash-record.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace talos::crash {
namespace {

constexpr kj::StringPtr kFaultRecord =
    "signal 11\nprogram apid\nbuild-id 0a16\npid 812\naddress 0x8\nregister pc=0x40120f\n"
    "register sp=0x7ffe10\nframe 0x40120f\nframe 0x4013aa\nmap\n"
    "00200000-00400000 r--p 00000000 00:11 5 /usr/bin/apid\n7ffe0000-7fff0000 rw-p [stack]\n"_kj;

// Catches: a field that is taken for another one, and a map whose lines are read as keys.
TEST(CrashRecord, HasAllThatWasWritten) {
  auto record = KJ_ASSERT_NONNULL(parseCrashRecord(kFaultRecord));
  EXPECT_EQ(SIGSEGV, record.signal);
  EXPECT_EQ("apid"_kj, record.program);
  EXPECT_EQ("0a16"_kj, record.buildId);
  EXPECT_EQ(812u, record.pid);
  EXPECT_EQ(0u, record.sender);
  EXPECT_EQ("0x8"_kj, KJ_ASSERT_NONNULL(record.address));
  EXPECT_EQ("pc=0x40120f, sp=0x7ffe10"_kj, kj::strArray(record.registers, ", "));
  EXPECT_EQ("0x40120f, 0x4013aa"_kj, kj::strArray(record.frames, ", "));
  ASSERT_EQ(2u, record.map.size());
  EXPECT_EQ("7ffe0000-7fff0000 rw-p [stack]"_kj, record.map[1]);
  EXPECT_EQ(""_kj, record.problem);
}

// Catches: a handler that itself faulted, and whose record is thrown away or called complete.
TEST(CrashRecord, OneThatEndsEarlySaysSo) {
  auto record = KJ_ASSERT_NONNULL(parseCrashRecord("signal 6\nprogram vipd\nsender 1\n"_kj));
  EXPECT_EQ(1u, record.sender);
  EXPECT_TRUE(record.address == nullptr);
  EXPECT_EQ("the program could not write its stack"_kj, record.problem);
  auto more = KJ_ASSERT_NONNULL(parseCrashRecord("signal 6\nframe 0x1\nframe 0x"_kj));
  EXPECT_EQ(1u, more.frames.size());
  EXPECT_EQ("the program could not write its memory map"_kj, more.problem);
}

// Catches: anything that a program under attack could put into a report: control characters,
// invalid addresses, lines without end, a signal number of its choice.
TEST(CrashRecord, InvalidFieldsOfARecordAreDropped) {
  EXPECT_TRUE(parseCrashRecord(nullptr) == nullptr);
  EXPECT_TRUE(parseCrashRecord("program apid\nsignal 11\n"_kj) == nullptr);
  EXPECT_TRUE(parseCrashRecord("signal 0\n"_kj) == nullptr);
  EXPECT_TRUE(parseCrashRecord("signal 650\n"_kj) == nullptr);
  kj::Vector<char> text;
  text.addAll(
      "signal 11\nprogram \x1b[2J\nbuild-id ../../etc\nframe 0x12g\nframe 12\n"
      "frame 0x11112222333344445\nregister "_kj);
  for (int i = 0; i < 5000; ++i) text.add('x');
  text.add('\n');
  for (int i = 0; i < 5000; ++i) text.addAll("frame 0x1\n"_kj);
  auto record = KJ_ASSERT_NONNULL(parseCrashRecord(text));
  EXPECT_EQ("?[2J"_kj, record.program);
  EXPECT_EQ(""_kj, record.buildId);
  EXPECT_EQ(kMostFramesRead, record.frames.size());
  EXPECT_EQ(kLongestValue, record.registers[0].size());
}

TEST(CrashRecord, SignalsHaveTheirNames) {
  EXPECT_EQ("SIGBUS"_kj, signalName(SIGBUS));
  EXPECT_EQ("SIG42"_kj, signalName(42));
}

}  // namespace
}  // namespace talos::crash
