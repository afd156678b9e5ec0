#include "machined/logs/log-ring.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

void ignore(kj::ArrayPtr<const char>) {}

kj::String text(const LogRing& ring, uint64_t from, uint64_t until) {
  auto result = kj::heapString(until - from);
  ring.copy(from, result);
  return result;
}
kj::String all(const LogRing& ring) {
  return text(ring, ring.oldest(), ring.newest());
}

struct Pipes {
  kj::AutoCloseFd in, out;
  Pipes() {
    int fds[2];
    KJ_SYSCALL(pipe2(fds, O_CLOEXEC | O_NONBLOCK));
    out = kj::AutoCloseFd(fds[0]);
    in = kj::AutoCloseFd(fds[1]);
  }
  void write(kj::StringPtr bytes) {
    KJ_ASSERT(::write(in, bytes.begin(), bytes.size()) == ssize_t(bytes.size()));
  }
};

kj::Own<LogRing> crash(LogRing& ring) {
  auto successor = LogRing::recover(FakeMachine::duplicate(ring.file()));
  return kj::mv(KJ_ASSERT_NONNULL(successor));
}

// A reader of a log cannot repair a line that is shown in halves.
TEST(LogRingTest, PartsOfALineAreKeptBackUntilItIsWhole) {
  LogRing ring;
  Pipes pipe;
  kj::Vector<kj::String> shown;
  auto show = [&](kj::ArrayPtr<const char> lines) { shown.add(kj::heapString(lines)); };
  pipe.write("one\ntw");
  ring.readFrom(pipe.out, 65536, show);
  EXPECT_EQ(all(ring), "one\n");
  pipe.write("o\n");
  ring.readFrom(pipe.out, 65536, show);
  EXPECT_EQ(all(ring), "one\ntwo\n");
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[1], "two\n");
  EXPECT_TRUE(ring.readFrom(pipe.out, 65536, show) == nullptr);  // nothing now
  pipe.in = nullptr;
  EXPECT_EQ(KJ_ASSERT_NONNULL(ring.readFrom(pipe.out, 65536, show)), 0u);  // end of the pipe
}

TEST(LogRingTest, ALineWithoutEndIsCutAtItsLength) {
  LogRing ring;
  Pipes pipe;
  auto longest = kj::heapString(kLongestLine);
  memset(longest.begin(), 'x', longest.size());
  pipe.write(longest);
  pipe.write("tail\n");
  while (ring.readFrom(pipe.out, 65536, ignore) != nullptr) {
  }
  EXPECT_EQ(all(ring), kj::str(longest, "\ntail\n"));
}

TEST(LogRingTest, AppendedLinesNeverMixWithABegunOne) {
  LogRing ring;
  Pipes pipe;
  pipe.write("half");
  ring.readFrom(pipe.out, 65536, ignore);
  ring.append("whole"_kj.asArray(), ignore);
  EXPECT_EQ(all(ring), "half\nwhole\n");
}

TEST(LogRingTest, WrapsAndAlwaysBeginsWithAWholeLine) {
  LogRing ring;
  for (int i = 0; i < 200'000; ++i) ring.append(kj::str("line ", i).asArray(), ignore);
  EXPECT_GT(ring.newest(), 2 * kLogCapacity);
  EXPECT_GT(ring.newest() - ring.oldest(), kLogCapacity - 100);
  EXPECT_LE(ring.newest() - ring.oldest(), kLogCapacity);
  auto content = all(ring);
  EXPECT_TRUE(content.startsWith("line "));
  EXPECT_TRUE(kj::StringPtr(content).endsWith("\nline 199999\n"));
  EXPECT_EQ(text(ring, ring.tail(2), ring.newest()), "line 199998\nline 199999\n");
  EXPECT_EQ(ring.tail(10'000'000), ring.oldest());
  EXPECT_EQ(ring.tail(0), ring.newest());
}

TEST(LogRingTest, ChunksEndBetweenLines) {
  LogRing ring;
  ring.append("aaa\nbbb\nccc\n"_kj.asArray(), ignore);
  EXPECT_EQ(ring.chunkEnd(0, 6, 12), 4u);
  EXPECT_EQ(ring.chunkEnd(0, 2, 12), 4u);  // a line longer than the limit is still whole
  EXPECT_EQ(ring.chunkEnd(0, 100, 12), 12u);
  EXPECT_EQ(ring.lineAt(5), 8u);
  EXPECT_EQ(ring.lineAt(4), 4u);
}

TEST(LogRingTest, ACrashKeepsLinesPositionsAndTheBegunLine) {
  LogRing ring;
  Pipes pipe;
  pipe.write("first\nsec");
  ring.readFrom(pipe.out, 65536, ignore);
  auto successor = crash(ring);
  EXPECT_EQ(successor->newest(), 6u);
  pipe.write("ond\n");
  successor->readFrom(pipe.out, 65536, ignore);
  EXPECT_EQ(all(*successor), "first\nsecond\n");
}

// A crash during a write has damaged the oldest bytes: they must not be shown as lines.
TEST(LogRingTest, WhatAWriteMayHaveSpoiltIsNotReadable) {
  LogRing ring;
  for (int i = 0; i < 200'000; ++i) ring.append(kj::str("line ", i).asArray(), ignore);
  auto oldest = ring.oldest();
  auto map = static_cast<uint64_t*>(
      mmap(nullptr, kLogHeaderSize, PROT_READ | PROT_WRITE, MAP_SHARED, ring.file(), 0));
  map[3] += 5000;  // intent: 5000 bytes were about to be written
  auto successor = crash(ring);
  EXPECT_GE(successor->oldest(), oldest + 5000 - 12);
  EXPECT_EQ(successor->newest(), ring.newest());
  successor->append("next"_kj.asArray(), ignore);
  EXPECT_GE(successor->oldest(), oldest + 5000 - 12) << "spoilt bytes came back";
  munmap(map, kLogHeaderSize);
}

TEST(LogRingTest, WhatIsNoRingIsNotTakenForOne) {
  int fd;
  KJ_SYSCALL(fd = memfd_create("other", MFD_CLOEXEC));
  EXPECT_TRUE(LogRing::recover(kj::AutoCloseFd(fd)) == nullptr);
  LogRing ring;
  auto map = static_cast<uint64_t*>(
      mmap(nullptr, kLogHeaderSize, PROT_READ | PROT_WRITE, MAP_SHARED, ring.file(), 0));
  map[1] = 100;  // lines > end
  EXPECT_TRUE(LogRing::recover(FakeMachine::duplicate(ring.file())) == nullptr);
  munmap(map, kLogHeaderSize);
}

// Idle services must not cost a megabyte each.
TEST(LogRingTest, PagesAreTouchedOnlyAsTheLogGrows) {
  LogRing ring;
  Pipes pipe;
  pipe.write("hello\n");
  ring.readFrom(pipe.out, 65536, ignore);
  struct stat stats;
  KJ_SYSCALL(fstat(ring.file(), &stats));
  EXPECT_LE(stats.st_blocks * 512, 2 * 4096);
}

// Catches: a log of many short lines whose times are overwritten with those of others, and is read
// from a wrong position; a line that is left out because its time is not known.
TEST(LogRingTest, OldTimesAreForgottenBeforeLines) {
  kj::TimerImpl time(kj::origin<kj::TimePoint>());
  LogRing ring(time);
  constexpr unsigned kLines = 20'000;
  for (unsigned i = 0; i < kLines; ++i) {
    time.advanceTo(kj::origin<kj::TimePoint>() + i * kj::SECONDS);
    ring.append(kj::str(i, "\n").asArray(), [](auto) {});
  }
  auto first = [&](unsigned since) {
    auto from = ring.since(kj::origin<kj::TimePoint>() + since * kj::SECONDS);
    auto lines = text(ring, from, ring.newest());
    return kj::str(lines.slice(0, lines.findFirst('\n').orDefault(0)));
  };
  EXPECT_EQ(first(0), "0");
  EXPECT_EQ(first(1000), "0") << "unknown: all that is kept";
  EXPECT_EQ(first(kLines - kLogMarks), "0");
  EXPECT_EQ(first(kLines - kLogMarks + 1), kj::str(kLines - kLogMarks + 1));
  EXPECT_EQ(first(kLines - 1), kj::str(kLines - 1));
  EXPECT_EQ(ring.since(kj::origin<kj::TimePoint>() + kLines * kj::SECONDS), ring.newest());
}

// Catches: lines that are left out because they came soon after another one.
TEST(LogRingTest, LinesOfATenthOfASecondHaveOneTime) {
  kj::TimerImpl time(kj::origin<kj::TimePoint>());
  LogRing ring(time);
  auto at = [](unsigned ms) { return kj::origin<kj::TimePoint>() + ms * kj::MILLISECONDS; };
  for (unsigned ms = 0; ms < 250; ms += 50) {
    time.advanceTo(at(ms));
    ring.append(kj::str(ms, " ms\n").asArray(), [](auto) {});
  }
  auto from = [&](unsigned ms) { return text(ring, ring.since(at(ms)), ring.newest()); };
  EXPECT_EQ(from(50), "0 ms\n50 ms\n100 ms\n150 ms\n200 ms\n");
  EXPECT_EQ(from(100), "100 ms\n150 ms\n200 ms\n");
  EXPECT_EQ(from(199), "100 ms\n150 ms\n200 ms\n");
  EXPECT_EQ(from(299), "200 ms\n");
  EXPECT_EQ(from(300), "");
}

}  // namespace
}  // namespace talos::machined
