// The hostile pack: real programs (apid, trustd) under attack for HOSTILE_SECONDS (default 10;
// `make soak` takes 60), while honest clients make calls. No honest call fails, the program's
// memory stays within a bound, and figures are printed.
//
// A scenario is a test of the suite Pack in a file pack-*-test.cc and a name in CMakeLists.txt:
// each runs as a separate program, so ctest runs scenarios side by side. Attackers are separate
// processes (bench::child), in the test's own network (common/testing/own-network.h).
#pragma once

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <new>

#include "common/base/error.h"
#include "common/base/file.h"
#include "tests/bench/processes.h"

namespace talos::hostile {

inline kj::Duration attackTime() {
  auto* text = getenv("HOSTILE_SECONDS");
  return kj::StringPtr(text == nullptr ? "10" : text).parseAs<unsigned>() * kj::SECONDS;
}

// Counts of the attackers, from their processes to the test.
struct Tally {
  std::atomic<uint64_t> attacks = 0, refused = 0;
  std::atomic<bool> go = false;
};
class SharedTally {
 public:
  SharedTally()
      : memory(mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                    0)) {
    KJ_REQUIRE(memory != MAP_FAILED, "no memory to share");
    tally = new (memory) Tally;
  }
  ~SharedTally() noexcept(false) { munmap(memory, sizeof(Tally)); }
  KJ_DISALLOW_COPY_AND_MOVE(SharedTally);
  Tally* operator->() { return tally; }
  Tally& operator*() { return *tally; }

 private:
  void* memory;
  Tally* tally;
};

// A process that attacks once the test sets Tally::go, and ends with the test even if the test
// fails. The test creates it before its own event loop.
class Attacker {
 public:
  template <typename F>
  Attacker(Tally& tally, F&& run)
      : pid(bench::child([&] {
          constexpr unsigned kWait = 60'000;  // ms, until the servers are up
          for (unsigned i = 0; !tally.go; ++i) {
            KJ_REQUIRE(i < kWait, "the test does not say go");
            usleep(1000);
          }
          auto io = kj::setupAsyncIo();
          run(io).wait(io.waitScope);
        })) {}
  ~Attacker() noexcept(false) {
    if (!alive()) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  bool alive() {
    if (!ended) ended = waitpid(pid, nullptr, WNOHANG) == pid;
    return !ended;
  }
  KJ_DISALLOW_COPY_AND_MOVE(Attacker);

 private:
  pid_t pid;
  bool ended = false;
};

// Returns the process's memory now, or, with VmHWM, its peak.
inline size_t residentKiB(pid_t pid, kj::StringPtr field = "VmRSS") {
  auto status = readFile(kj::str("/proc/", pid, "/status"));
  auto* line = strstr(status.cStr(), kj::str("\n", field, ":").cStr());
  KJ_REQUIRE(line != nullptr, "the process has ended", pid);
  return strtoul(line + field.size() + 2, nullptr, 10);
}
inline size_t peakKiB(pid_t pid) {
  return residentKiB(pid, "VmHWM");
}

inline void manyDescriptors() {
  rlimit files;
  KJ_SYSCALL(getrlimit(RLIMIT_NOFILE, &files));
  files.rlim_cur = files.rlim_max;
  KJ_SYSCALL(setrlimit(RLIMIT_NOFILE, &files));
}

struct Pack : testing::Test {
  ~Pack() noexcept override {}
  SharedTally tally;
  void SetUp() override { manyDescriptors(); }
};

// The honest callers of a scenario, and the judge of their results. Created after all processes
// have started.
class Honest {
 public:
  // Timeout of a call: four times what a joining node has for connecting
  // (apid/join/trustd-client.cc), because other tests compute beside this one. The figures say how
  // long the calls took.
  static constexpr auto kTimeout = 20 * kj::SECONDS;

  Honest(Tally& tally) : tally(tally) {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();

  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(2 * kTimeout, kj::mv(promise)).wait(io.waitScope);
  }
  // One caller: makes call after call with a pause between, for the time of the attack.
  using Call = kj::Function<kj::Promise<void>(unsigned)>;
  void add(kj::StringPtr what, kj::Duration pause, Call call) {
    callers.add(calling(kj::str(what), pause, kj::mv(call)));
  }
  struct Fared {
    size_t calls;
    unsigned failed;
    double slowestMs;
    size_t beforeKiB, mostKiB;  // of the server's memory
  };
  // Starts the attacks, and makes the honest calls until the end. `refuses`: the server must end
  // the attackers' connections, and not only withstand them.
  Fared run(kj::StringPtr name, pid_t server, size_t mostGrowthKiB, bool refuses = true) {
    auto before = residentKiB(server);
    tally.go = true;
    timer.timeoutAfter(attackTime() + 3 * kTimeout, kj::joinPromises(callers.releaseAsArray()))
        .wait(io.waitScope);
    auto most = peakKiB(server);
    auto calls = took.size();
    auto slowest = *std::max_element(took.begin(), took.end()) / 1e6;
    auto figure = bench::figureOf(kj::mv(took));
    double seconds = attackTime() / kj::SECONDS;
    printf(
        "{\"pack\":\"%s\",\"seconds\":%.0f,\"honestCalls\":%zu,\"honestPerSecond\":%.1f,"
        "\"honest\":%s,\"failed\":%u,\"attacks\":%lu,\"refused\":%lu,\"rssBeforeKiB\":%zu,"
        "\"mostRssKiB\":%zu}\n",
        name.cStr(), seconds, calls, calls / seconds, bench::json(figure).cStr(), failed,
        (unsigned long)tally.attacks, (unsigned long)tally.refused, before, most);
    EXPECT_EQ(failed, 0u);
    EXPECT_GT(tally.attacks, 0u) << "nothing attacked";
    if (refuses) EXPECT_GT(tally.refused, 0u) << "nothing was refused";
    EXPECT_LT(most, before + mostGrowthKiB);
    return {calls, failed, slowest, before, most};
  }

 private:
  Tally& tally;
  kj::Vector<kj::Promise<void>> callers;
  kj::Vector<uint64_t> took;
  unsigned failed = 0;

  kj::Promise<void> calling(kj::String what, kj::Duration pause, Call call) {
    co_await timer.afterDelay(pause);  // not before run()
    auto end = timer.now() + attackTime();
    for (unsigned i = 0; timer.now() < end; ++i) {
      auto began = bench::nanoseconds();
      co_await timer.timeoutAfter(kTimeout, call(i)).catch_([&](kj::Exception&& e) {
        if (++failed > 5) return;
        ADD_FAILURE() << what.cStr() << " " << i << " failed: " << messageOf(e).cStr();
      });
      took.add(bench::nanoseconds() - began);
      co_await timer.afterDelay(pause);
    }
  }
};

}  // namespace talos::hostile
