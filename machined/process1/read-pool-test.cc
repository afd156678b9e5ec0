#include "machined/process1/read-pool.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <kj/vector.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "common/base/error.h"
#include "common/testing/sanitizers.h"
#include "common/testing/virtual-time.h"

namespace talos {
namespace {

// Reads that end when the test releases them, as from a dead mount.
struct ReadPoolTest : testing::Test {
  ~ReadPoolTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kj::Vector<kj::String> lines;
  kj::AutoCloseFd reading, writing;
  std::atomic<unsigned> inside = 0;
  ReadPool pool{timer,
                {.threads = 2, .mostThreads = 4, .mostQueued = 6, .hangsAfter = 30 * kj::SECONDS},
                [this](kj::StringPtr line) { lines.add(kj::str(line)); }};

  ReadPoolTest() {
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
    reading = kj::AutoCloseFd(ends[0]);
    writing = kj::AutoCloseFd(ends[1]);
  }
  kj::Promise<void> hang() {
    return pool.run("reading a dead mount", [this]() {
      ++inside;
      char byte;
      KJ_SYSCALL(read(reading, &byte, 1));
      --inside;
    });
  }
  void release(unsigned count) {
    for (unsigned i = 0; i < count; ++i) KJ_SYSCALL(write(writing, "x", 1));
  }
  // Waits for the threads; the deadline uses the real clock.
  void until(kj::FunctionParam<bool()> reached) {
    auto late = io.provider->getTimer().now() + 20 * kj::SECONDS;
    while (!reached()) {
      ASSERT_LT(io.provider->getTimer().now(), late) << "not reached within 20 s";
      io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
  }
  void pass(kj::Duration time) { advance(timer, io.waitScope, time); }
  int answer() {
    return pool.run("reading", []() { return 42; }).wait(io.waitScope);
  }
  kj::String failure(kj::Promise<void> promise) {
    auto e = kj::runCatchingExceptions([&]() { promise.wait(io.waitScope); });
    KJ_IF_MAYBE (x, e) return kj::str(nameOf(kindOf(*x)), ": ", messageOf(*x));
    return kj::str("ok");
  }
};

// Catches: results or failures that go to another caller; a thread that ends with a failure.
TEST_F(ReadPoolTest, GivesBackWhatTheWorkMadeOrThrew) {
  kj::Vector<kj::Promise<int>> all;
  for (int i = 0; i < 6; ++i) all.add(pool.run("counting", [i]() { return i; }));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(i, all[i].wait(io.waitScope));
  EXPECT_EQ("NotFound: nothing there",
            failure(pool.run("reading", []() { fail(ErrorKind::kNotFound, "nothing there"); })));
  EXPECT_EQ(42, answer());
}

// Catches: a client that takes every thread, for a while or for ever, however often it comes; its
// reads that delay those of others; a client that can read nothing any more, not even to find the
// cause of its first read's hang.
TEST_F(ReadPoolTest, OneClientLeavesTheOthersTheirThreads) {
  auto hanging = [&]() {
    return pool.run(
        "reading a dead mount",
        [this]() {
          ++inside;
          char byte;
          KJ_SYSCALL(read(reading, &byte, 1));
          --inside;
        },
        7);
  };
  auto first = hanging(), second = hanging(), third = hanging();
  until([&]() { return inside == 1; });
  EXPECT_EQ(42, pool.run("reading", []() { return 42; }, 8).wait(io.waitScope));
  EXPECT_EQ(inside, 1u);
  pass(31 * kj::SECONDS);  // it hangs now: the next read may start
  until([&]() { return inside == 2; });
  EXPECT_EQ(pool.hanging(), 1u);
  pass(31 * kj::SECONDS);
  EXPECT_EQ(pool.hanging(), 2u);
  EXPECT_EQ(inside, 2u);
  EXPECT_EQ(
      "Unavailable: 2 reads of this client hang already (reading a dead mount); a disk or a mount "
      "does not answer",
      failure(hanging()));
  EXPECT_EQ(42, pool.run("reading", []() { return 42; }, 8).wait(io.waitScope));
  release(3);  // together: the third begins when one has ended, and may read before the other does
  first.wait(io.waitScope);
  second.wait(io.waitScope);
  third.wait(io.waitScope);
  EXPECT_EQ(inside, 0u);
}

// Catches: reads on a dead mount that stop all others, and are not reported.
TEST_F(ReadPoolTest, AThreadThatHangsIsReportedAndReplaced) {
  auto first = hang(), second = hang();
  until([&]() { return inside == 2; });
  auto waiting = pool.run("reading", []() { return 42; });
  EXPECT_FALSE(waiting.poll(io.waitScope));
  EXPECT_EQ(0u, pool.hanging());
  pass(31 * kj::SECONDS);
  EXPECT_EQ(2u, pool.hanging());
  ASSERT_EQ(2u, lines.size());
  EXPECT_EQ("a read hangs for 30 s: reading a dead mount; 2 of at most 4 threads hang", lines[1]);
  EXPECT_EQ(42, waiting.wait(io.waitScope));
  EXPECT_EQ(42, answer());
  release(2);
  first.wait(io.waitScope);
  second.wait(io.waitScope);
  EXPECT_EQ(0u, pool.hanging());
  EXPECT_EQ("a read that hung ended: reading a dead mount; 0 still hang", lines.back());
  EXPECT_EQ(42, answer());
}

// Catches: work that is refused for lack of memory for a thread, and that a thread runs later all
// the same.
TEST_F(ReadPoolTest, WithoutAThreadACallFails) {
  if (kAddressSanitizer) GTEST_SKIP() << "it reserves more than any limit";
  struct rlimit before, none;
  KJ_SYSCALL(getrlimit(RLIMIT_AS, &before));
  none = before;
  none.rlim_cur = 1 << 20;  // less than in use: mapped memory stays
  // The C library keeps the stacks of ended threads, 40 MiB of them: these threads use them.
  std::vector<std::thread> others;
  std::atomic<bool> over = false;
  for (int i = 0; i < 16; ++i) others.emplace_back([&]() { over.wait(false); });
  KJ_DEFER({
    over = true;
    over.notify_all();
    for (auto& other : others) other.join();
  });
  bool done = false;
  auto call = [&]() { return pool.run("reading", [&]() { done = true; }); };
  KJ_SYSCALL(setrlimit(RLIMIT_AS, &none));
  auto refused = call();
  KJ_SYSCALL(setrlimit(RLIMIT_AS, &before));
  EXPECT_THAT(failure(kj::mv(refused)).cStr(),
              testing::StartsWith("Unavailable: cannot start a thread for reads: "));
  EXPECT_EQ(42, answer());
  EXPECT_FALSE(done);
}

// Catches: an unlimited number of threads; callers that wait for a thread that never comes.
TEST_F(ReadPoolTest, RefusesWhenAllHang) {
  kj::Vector<kj::Promise<void>> hanging;
  for (unsigned i = 0; i < 4; ++i) {
    hanging.add(hang());
    until([&]() { return inside == i + 1; });
    if (i % 2 == 1) pass(31 * kj::SECONDS);
  }
  EXPECT_EQ(4u, pool.hanging());
  EXPECT_EQ(
      "Unavailable: all 4 threads for reads hang (reading a dead mount); a disk or a mount "
      "does not answer",
      failure(hang()));
  release(1);
  until([&]() { return inside == 3; });
  until([&]() { return pool.hanging() == 3; });
  EXPECT_EQ(42, answer());
  release(3);
  for (auto& h : hanging) h.wait(io.waitScope);
}

// Catches: callers that wait for ever for threads that all hang.
TEST_F(ReadPoolTest, WaitingReadsFailWhenTheLastThreadHangs) {
  kj::Vector<kj::Promise<void>> hanging;
  for (unsigned i = 0; i < 2; ++i) hanging.add(hang());
  until([&]() { return inside == 2; });
  for (unsigned i = 0; i < 2; ++i) hanging.add(hang());
  auto late = hang();
  pass(31 * kj::SECONDS);
  until([&]() { return inside == 4; });
  pass(31 * kj::SECONDS);
  EXPECT_EQ("Unavailable: all 4 threads for reads hang; retry later", failure(kj::mv(late)));
  release(4);
  for (auto& h : hanging) h.wait(io.waitScope);
}

// Catches: a queue that grows without a limit; work that is done although its caller has gone.
TEST_F(ReadPoolTest, TheQueueIsBounded) {
  auto first = hang(), second = hang();
  until([&]() { return inside == 2; });
  bool done = false;
  kj::Vector<kj::Promise<void>> waiting;
  for (int i = 0; i < 6; ++i) waiting.add(pool.run("reading", [&]() { done = true; }));
  EXPECT_EQ("ResourceExhausted: 6 reads are waiting, which is the limit; retry", failure(hang()));
  waiting.clear();
  release(2);
  first.wait(io.waitScope);
  second.wait(io.waitScope);
  EXPECT_EQ(42, answer());
  EXPECT_FALSE(done);
}

// Catches: a brain that cannot exit because a read hangs.
TEST(ReadPoolEnd, LeavesWhatHangs) {
  auto io = kj::setupAsyncIo();
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  std::atomic<bool> inside = false, ended = false;
  {
    ReadPool pool(io.provider->getTimer(), {}, [](kj::StringPtr) {});
    auto abandoned = pool.run("reading", [&inside, &ended, fd = ends[0]]() {
      inside = true;
      char byte;
      KJ_SYSCALL(read(fd, &byte, 1));
      ended = true;
    });
    abandoned.poll(io.waitScope);
    while (!inside) usleep(1000);
  }
  EXPECT_FALSE(ended);
  KJ_SYSCALL(write(ends[1], "x", 1));
  while (!ended) usleep(1000);  // the thread does no harm
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace talos
