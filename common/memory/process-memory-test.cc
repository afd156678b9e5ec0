#include "common/memory/process-memory.h"

#include <gtest/gtest.h>
#include <kj/async.h>
#include <kj/debug.h>
#include <kj/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "common/base/file.h"
#include "common/testing/sanitizers.h"

namespace talos {
namespace {

size_t residentFilePages() {
  auto status = readFile("/proc/self/status");
  auto* line = strstr(status.cStr(), "RssFile:");
  size_t kib = 0;
  EXPECT_EQ(1, sscanf(line, "RssFile: %zu", &kib));
  return kib;
}

const kj::StringPtr kConstant = "still here"_kj;
int variable = 41;

// Catches: a segment with data of this process among the released ones; no release at all.
TEST(ReleaseStartMemory, KeepsDataAndGivesPagesBack) {
  variable++;
  auto before = residentFilePages();
  releaseStartMemory();
  auto after = residentFilePages();
  EXPECT_EQ(42, variable);
  EXPECT_EQ("still here"_kj, kConstant);
  EXPECT_LT(after, before);
}

// Catches: pages that a daemon touched after its start and keeps after one of the releases; a
// promise that never resolves.
TEST(ReleaseStartMemory, GivesBackThreeTimesLater) {
  kj::EventLoop loop;
  kj::WaitScope waits(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  auto done = releaseStartMemoryLater(timer);
  for (auto seconds : {10, 60, 300}) {
    // Later readings find the pages that a reading itself needs in memory.
    residentFilePages();
    auto before = residentFilePages();
    EXPECT_FALSE(done.poll(waits)) << seconds;
    timer.advanceTo(kj::origin<kj::TimePoint>() + seconds * kj::SECONDS);
    bool over = done.poll(waits);
    EXPECT_LT(residentFilePages(), before) << seconds;
    EXPECT_EQ(over, seconds == 300);
  }
}

// Catches: a heap for each thread; huge pages.
TEST(Memory, ThreadsShareOneHeap) {
  if (kAddressSanitizer) GTEST_SKIP() << "it has its own heap";
  pid_t pid;
  KJ_SYSCALL(pid = fork());
  if (pid == 0) {
    keepHeapSmall();
    char* block = nullptr;
    std::thread([&] { block = static_cast<char*>(malloc(100)); }).join();
    _exit(block < sbrk(0) && prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1 ? 0 : 1);
  }
  int status = -1;
  KJ_SYSCALL(waitpid(pid, &status, 0));
  EXPECT_EQ(status, 0);
}

// Catches: a program with keys that leaves them in a core file.
TEST(Memory, NoCoreDumps) {
  pid_t pid;
  KJ_SYSCALL(pid = fork());
  if (pid == 0) {
    refuseCoreDumps();
    struct rlimit limit = {1, 1};
    getrlimit(RLIMIT_CORE, &limit);
    _exit(prctl(PR_GET_DUMPABLE) == 0 && limit.rlim_max == 0 ? 0 : 1);
  }
  int status = -1;
  KJ_SYSCALL(waitpid(pid, &status, 0));
  EXPECT_EQ(status, 0);
}

// Catches: memory that is reported as locked although it is not.
TEST(Memory, LockedPagesAreCounted) {
  if (kAddressSanitizer) GTEST_SKIP() << "its mlock() does nothing";
  auto locked = [] {
    auto status = readFile("/proc/self/status");
    return strtoul(strstr(status.cStr(), "VmLck:") + 6, nullptr, 10);
  };
  auto before = locked();
  auto bytes = kj::heapArray<kj::byte>(64u << 10);
  ASSERT_TRUE(keepOffDisk(bytes));
  EXPECT_GE(locked(), before + 60);
  munlock(bytes.begin(), bytes.size());
  EXPECT_TRUE(keepOffDisk(nullptr));
}

}  // namespace
}  // namespace talos
