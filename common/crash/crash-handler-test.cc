#include "common/crash/crash-handler.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <kj/time.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/waits.h"
#include "common/crash/crash-record.h"
#include "common/crash/service-page.h"
#include "common/crash/symbol-table.h"
#include "common/testing/sanitizers.h"

namespace talos::crash {
namespace {

kj::AutoCloseFd newPage() {
  int fd;
  KJ_SYSCALL(fd = memfd_create("page", MFD_CLOEXEC));
  KJ_SYSCALL(ftruncate(fd, kServicePageSize));
  return kj::AutoCloseFd(fd);
}

kj::Maybe<CrashRecord> recordIn(int page) {
  auto bytes = kj::heapArray<kj::byte>(kServicePageSize);
  KJ_REQUIRE(readAt(page, 0, bytes, "page") == bytes.size());
  auto& content = *reinterpret_cast<const ServicePage*>(bytes.begin());
  return parseCrashRecord(kj::arrayPtr(content.record, content.size.load()));
}

struct Crash {
  int status;
  CrashRecord record;
};

template <typename F>
Crash crashOf(F&& work) {
  auto page = newPage();
  auto child = fork();
  if (child == 0) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    reportCrashesTo(page, "crasher");
    work();
    _exit(0);
  }
  int status;
  KJ_SYSCALL(waitpid(child, &status, 0));
  auto record = KJ_REQUIRE_NONNULL(recordIn(page), status);
  EXPECT_EQ(static_cast<uint32_t>(child), record.pid);
  return {status, kj::mv(record)};
}

volatile int* volatile nowhere = nullptr;
volatile int depth = 0;

[[gnu::noinline]] void writeNowhere() {
  *nowhere = 1;
}
[[gnu::noinline]] void callThatFaults() {
  writeNowhere();
  depth = depth + 1;  // so that the call is not a tail call
}
[[gnu::noinline]] int overflow(int level) {
  volatile char page[4096];
  page[0] = static_cast<char>(level);
  return level == -1 ? page[0] : overflow(level + 1) + page[0];
}

// Returns true for an address in the function. The test programs are not position independent, so
// an address of the code is also its address in the file.
bool isIn(kj::StringPtr address, const void* function) {
  constexpr uint64_t kMostOfIt = 512;
  auto at = KJ_ASSERT_NONNULL(parseAddress(address));
  auto begin = reinterpret_cast<uint64_t>(function);
  return at >= begin && at < begin + kMostOfIt;
}

bool hasFrameOf(const CrashRecord& record, const void* function) {
  for (auto& frame : record.frames) {
    if (isIn(frame, function)) return true;
  }
  return false;
}

#define NEEDS_OWN_HANDLERS() \
  if (kSanitized) GTEST_SKIP() << "a sanitizer has its own handlers"

// Catches: a stack that begins in the handler, ends at the signal, or misses the innermost
// function; a status that hides the signal.
TEST(CrashHandler, NamesTheFaultAndItsCallers) {
  NEEDS_OWN_HANDLERS();
  auto crash = crashOf([]() { callThatFaults(); });
  ASSERT_TRUE(WIFSIGNALED(crash.status));
  EXPECT_EQ(SIGSEGV, WTERMSIG(crash.status));
  auto& record = crash.record;
  EXPECT_EQ(SIGSEGV, record.signal);
  EXPECT_EQ("crasher"_kj, record.program);
  EXPECT_EQ(ownBuildId(), record.buildId);
  EXPECT_EQ(40u, record.buildId.size());
  EXPECT_EQ("0x0"_kj, KJ_ASSERT_NONNULL(record.address));
  ASSERT_GE(record.frames.size(), 3u);
  EXPECT_TRUE(isIn(record.frames[0], reinterpret_cast<void*>(writeNowhere)));
  EXPECT_TRUE(isIn(record.frames[1], reinterpret_cast<void*>(callThatFaults)));
#ifdef __x86_64__
  // The last byte of the call, not the byte after it, which may be in another function.
  auto call = KJ_ASSERT_NONNULL(parseAddress(record.frames[1]));
  EXPECT_EQ(0xe8, *reinterpret_cast<const uint8_t*>(call - 4));
#endif
  EXPECT_EQ(kj::str("pc=", record.frames[0]), record.registers[0]);
  EXPECT_EQ(""_kj, record.problem);
  bool hasStack = false;
  for (auto& line : record.map) hasStack = hasStack || line.endsWith("[stack]");
  EXPECT_TRUE(hasStack);
}

// Catches: a signal that is swallowed, so that the program continues; a signal whose sender is
// lost.
TEST(CrashHandler, EverySignalEndsTheProgram) {
  NEEDS_OWN_HANDLERS();
  for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    auto crash = crashOf([number]() { kill(getpid(), number); });
    ASSERT_TRUE(WIFSIGNALED(crash.status)) << number;
    EXPECT_EQ(number, WTERMSIG(crash.status));
    EXPECT_EQ(number, crash.record.signal);
    EXPECT_EQ(crash.record.pid, crash.record.sender);
    EXPECT_TRUE(crash.record.address == nullptr);
  }
  auto aborted = crashOf([]() { abort(); });
  EXPECT_EQ(SIGABRT, WTERMSIG(aborted.status));
  EXPECT_GE(aborted.record.frames.size(), 3u);
}

// Catches: a handler on the stack that has just ended.
TEST(CrashHandler, ReportsAnOverflowOfTheStack) {
  NEEDS_OWN_HANDLERS();
  auto crash = crashOf([]() {
    struct rlimit small = {1u << 20, 1u << 20};
    setrlimit(RLIMIT_STACK, &small);
    depth = overflow(0);
  });
  EXPECT_EQ(SIGSEGV, WTERMSIG(crash.status));
  EXPECT_TRUE(hasFrameOf(crash.record, reinterpret_cast<void*>(overflow)));
}

// Catches: a call through a pointer that was never set, whose caller is lost with the unwinder.
TEST(CrashHandler, ReportsWhoCalledNothing) {
  NEEDS_OWN_HANDLERS();
  auto crash = crashOf([]() {
    void (*volatile call)() = nullptr;
    call();
    depth = depth + 1;
  });
  ASSERT_EQ(2u, crash.record.frames.size());
  EXPECT_EQ("0x0"_kj, crash.record.frames[0]);
  EXPECT_LT(0x1000u, KJ_ASSERT_NONNULL(parseAddress(crash.record.frames[1])));
}

// Catches: memory in a report, here a secret that is in a register and on the stack.
TEST(CrashHandler, WritesNoContents) {
  NEEDS_OWN_HANDLERS();
  constexpr uint64_t kSecret = 0x5ec2e75ec2e7abcdull;
  auto crash = crashOf([]() {
    volatile uint64_t onStack = kSecret;
    uint64_t inRegister = onStack;
    asm volatile("" : "+r"(inRegister));
    *nowhere = 1;
    asm volatile("" : : "r"(inRegister));
  });
  auto all = kj::str(kj::strArray(crash.record.registers, " "),
                     kj::strArray(crash.record.frames, " "), kj::strArray(crash.record.map, " "));
  EXPECT_EQ(std::string::npos, std::string(all.cStr()).find("5ec2e75ec2e7abcd"));
}

// Catches: a level that counts only after a restart, or is off by one.
TEST(CrashHandler, FollowsTheLevelOfItsPage) {
  auto page = newPage();
  auto child = fork();
  if (child == 0) {
    reportCrashesTo(page, "logger");
    auto set = [&](uint8_t stored) {
      return pwrite(page, &stored, 1, offsetof(ServicePage, level)) == 1;
    };
    using log::Level;
    bool good = !log::writes(Level::kDebug) && log::writes(Level::kInfo);
    good = good && set(storedLevel(Level::kDebug)) && log::writes(Level::kDebug);
    good = good && set(storedLevel(Level::kWarning)) && !log::writes(Level::kInfo) &&
           log::writes(Level::kWarning);
    good = good && set(storedLevel(Level::kError)) && !log::writes(Level::kWarning) &&
           log::writes(Level::kError);
    good = good && set(0) && !log::writes(Level::kDebug) && log::writes(Level::kInfo);
    _exit(good ? 0 : 1);
  }
  int status;
  KJ_SYSCALL(waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
}

// Catches: a descriptor that the daemon's children inherit, a level that reaches them.
TEST(CrashHandler, TakesThePageFromTheEnvironment) {
  NEEDS_OWN_HANDLERS();
  auto page = newPage();
  auto child = fork();
  if (child == 0) {
    int as = dup(page);
    setenv(kServicePageVariable, kj::str(as).cStr(), 1);
    reportCrashes("daemon");
    bool closes = (fcntl(as, F_GETFD) & FD_CLOEXEC) != 0;
    if (!closes || getenv(kServicePageVariable) != nullptr) _exit(1);
    raise(SIGSEGV);
  }
  int status;
  KJ_SYSCALL(waitpid(child, &status, 0));
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ("daemon"_kj, KJ_ASSERT_NONNULL(recordIn(page)).program);
}

volatile bool stopSpinning = false;
// Reports from within that it has begun, so that the test does not look earlier.
[[gnu::noinline]] void spin(int ready) {
  if (write(ready, "x", 1) != 1) _exit(1);
  while (!stopSpinning) depth = depth + 1;
}

// Returns the record of a program that continues, within half a minute.
CrashRecord lookAt(pid_t child, int page) {
  KJ_SYSCALL(kill(child, kShowStack));
  auto& clock = kj::systemCoarseMonotonicClock();
  for (auto begin = clock.now();;) {
    KJ_REQUIRE(clock.now() - begin < 30 * kj::SECONDS, "the program did not write its record");
    KJ_IF_MAYBE (record, recordIn(page)) {
      if (record->whole) return kj::mv(*record);
    }
    int status;
    KJ_REQUIRE(waitpid(child, &status, WNOHANG) == 0, "the program ended", status);
    sched_yield();
  }
}

// Catches: a look that ends the program, or that shows neither the hanging code nor the waits; a
// later crash that is not reported.
TEST(CrashHandler, ShowsAProgramThatGoesOn) {
  NEEDS_OWN_HANDLERS();
  auto page = newPage();
  int ready[2];
  KJ_SYSCALL(pipe2(ready, O_CLOEXEC));
  auto child = fork();
  if (child == 0) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    reportCrashesTo(page, "spinner");
    Wait wait("the lock of the cluster");
    spin(ready[1]);
    _exit(0);
  }
  KJ_DEFER(kill(child, SIGKILL));
  char byte;
  KJ_SYSCALL(read(ready[0], &byte, 1));
  for (int time = 0; time < 2; ++time) {
    auto record = lookAt(child, page);
    EXPECT_EQ(kShowStack, record.signal);
    EXPECT_EQ("spinner"_kj, record.program);
    EXPECT_TRUE(hasFrameOf(record, reinterpret_cast<void*>(spin)));
    ASSERT_EQ(1u, record.waits.size());
    EXPECT_EQ("the lock of the cluster"_kj, record.waits[0].text);
    EXPECT_EQ(0u, record.map.size());
    KJ_SYSCALL(ftruncate(page, 0));
    KJ_SYSCALL(ftruncate(page, kServicePageSize));
  }
  KJ_SYSCALL(kill(child, SIGSEGV));
  int status;
  KJ_SYSCALL(waitpid(child, &status, 0));
  ASSERT_TRUE(WIFSIGNALED(status));
  auto crash = KJ_ASSERT_NONNULL(recordIn(page));
  EXPECT_EQ(SIGSEGV, crash.signal);
  EXPECT_FALSE(crash.whole);
  EXPECT_EQ(1u, crash.waits.size()) << "what it was about";
  for (int fd : ready) close(fd);
}

}  // namespace
}  // namespace talos::crash
