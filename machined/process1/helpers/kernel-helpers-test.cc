#include "machined/process1/helpers/kernel-helpers.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <linux/capability.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "common/base/file.h"
#include "common/kernel/process-capabilities.h"
#include "common/testing/sanitizers.h"
#include "machined/process1/test-process1.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {
namespace {

class KernelHelpersTest : public testing::Test {
 public:
  ~KernelHelpersTest() noexcept override {}

 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  FakeMachine machine;
  FakeProcess1 process1{machine};
  std::string lines;
  KernelHelpers helpers{process1, io.unixEventPort, timer,
                        [this](kj::StringPtr line) { lines += line.cStr(); }};

  void turnUntil(kj::Function<bool()> done) {
    while (!done()) {
      io.unixEventPort.poll();
      io.waitScope.poll();
    }
  }
};

// Catches: a helper with more rights than it needs; a helper that the brain starts itself; a helper
// that is not restarted after it has ended.
TEST_F(KernelHelpersTest, AreStartedByProcess1) {
  EXPECT_EQ(ECONNRESET, helpers.setParameter("vm/mmap_min_addr", "1\n").orDefault(0));
  EXPECT_TRUE(helpers.setParameter("vm/swappiness", "1\n") == nullptr);
  auto running = helpers.run().eagerlyEvaluate(nullptr);
  io.waitScope.poll();
  auto& modules = machine.child("kernel-helper/modules/0-0");
  auto& rawIo = machine.child("kernel-helper/raw-io/0-0");
  auto line = kj::strArray(modules.argv, " ");
  EXPECT_TRUE(
      line.startsWith("/usr/libexec/talos/confine --uid=0 "
                      "--capabilities=sys_module,setpcap --seccomp=modules "))
      << line.cStr();
  EXPECT_TRUE(line.endsWith(" -- /usr/libexec/talos/kernel-helper modules")) << line.cStr();
  line = kj::strArray(rawIo.argv, " ");
  EXPECT_TRUE(
      line.startsWith("/usr/libexec/talos/confine --uid=0 --capabilities=sys_rawio "
                      "--seccomp=raw-io "))
      << line.cStr();
  EXPECT_TRUE(line.endsWith(" -- /usr/libexec/talos/kernel-helper raw-io")) << line.cStr();
  ASSERT_EQ(1u, rawIo.passed.size());
  EXPECT_EQ(helper::kRequestsFd, rawIo.passed[0].as);
  machine.exit("kernel-helper/raw-io/0-0", SIGKILL);
  turnUntil([&] { return !lines.empty(); });
  EXPECT_EQ("the kernel helper for raw-io: it exited; retrying", lines);
  EXPECT_EQ(ECONNRESET, helpers.setParameter("vm/mmap_min_addr", "1\n").orDefault(0));
  machine.failNextSpawn = kj::str("no process");
  timer.advanceTo(timer.now() + 1 * kj::SECONDS);
  turnUntil([&] { return lines.find("no process; retrying") != lines.npos; });
  timer.advanceTo(timer.now() + 1 * kj::SECONDS);
  turnUntil([&] { return machine.runs("kernel-helper/raw-io/0-2"); });
  EXPECT_TRUE(machine.runs("kernel-helper/modules/0-0"));
}

// Starts children as process 1 does, and does nothing else.
class SpawningProcess1 final : public Process1 {
 public:
  kj::Vector<pid_t> pids;

  ~SpawningProcess1() noexcept(false) {
    for (auto pid : pids) waitpid(pid, nullptr, 0);
  }
  kj::Promise<Started> spawn(SpawnRequest request) override {
    kj::Vector<char*> argv;
    for (auto& each : request.argv) argv.add(const_cast<char*>(each.cStr()));
    argv.add(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    KJ_DEFER(posix_spawn_file_actions_destroy(&files));
    for (auto& passed : request.passed) {
      KJ_REQUIRE(passed.fd != passed.as);
      posix_spawn_file_actions_adddup2(&files, passed.fd, passed.as);
    }
    char* environment[] = {nullptr};
    pid_t pid;
    int error = posix_spawn(&pid, argv[0], &files, nullptr, argv.begin(), environment);
    if (error != 0) KJ_FAIL_SYSCALL("posix_spawn", error);
    pids.add(pid);
    int pidfd;
    KJ_SYSCALL(pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    return Started{pid, kj::AutoCloseFd(pidfd)};
  }
  void signal(kj::StringPtr, int) override {}
  kj::Promise<Exit> nextExit() override { return kj::NEVER_DONE; }
  kj::Promise<void> hold(kj::StringPtr, int) override { return kj::READY_NOW; }
  kj::Promise<void> drop(kj::StringPtr) override { return kj::READY_NOW; }
  kj::Vector<Survivor> takeSurvivors() override { return {}; }
  kj::Maybe<kj::AutoCloseFd> takeHeld(kj::StringPtr) override { return nullptr; }
  kj::Vector<kj::String> heldNames() override { return {}; }
  unsigned brainRestarts() const override { return 0; }
  kj::Promise<PowerAction> nextPowerAction() override { return kj::NEVER_DONE; }
  kj::Promise<void> reboot(unsigned) override { return kj::NEVER_DONE; }
};

// Catches: a helper that cannot do its work with the rights that it keeps, or that has more.
TEST(KernelHelpers, DoTheirWorkUnderTheWrapper) {
  ASSERT_EQ(getuid(), 0u) << "needs root";
  if (kAddressSanitizer) {
    GTEST_SKIP() << "after the wrapper's Landlock rules a program may execute only itself, and one "
                    "with sanitizers is not static: its loader is refused";
  }
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  SpawningProcess1 process1;
  UvLoop uv(io.unixEventPort, timer);
  std::string lines;
  KernelHelpers helpers(process1, io.unixEventPort, timer,
                        [&](kj::StringPtr line) { lines += line.cStr(); },
                        {TALOS_PROGRAMS "/confine"_kj, TALOS_PROGRAMS "/kernel-helper"_kj});
  auto running = helpers.run().eagerlyEvaluate(nullptr);
  auto ask = [&](kj::Function<int()> call) { return uv.blocking(kj::mv(call)).wait(io.waitScope); };
  constexpr auto kPath = "/proc/sys/vm/mmap_min_addr"_kj;
  auto value = readFile(kPath);
  bool has =
      (KJ_REQUIRE_NONNULL(boundingSetOf(readFile("/proc/self/status"))) >> CAP_SYS_RAWIO & 1) != 0;
  EXPECT_EQ(has ? 0 : EPERM,
            ask([&] { return helpers.setParameter("vm/mmap_min_addr", value).orDefault(-1); }))
      << lines;
  constexpr auto kOfPrograms = "kernel/usermodehelper/inheritable"_kj;
  auto rights = readFile(kj::str("/proc/sys/", kOfPrograms));
  EXPECT_EQ(has ? 0 : EPERM,
            ask([&] { return helpers.setParameter(kOfPrograms, rights).orDefault(-1); }))
      << lines;
  EXPECT_EQ(ENOTBLK, ask([&] { return helpers.ataStatus(STDIN_FILENO).error; }));
  ASSERT_EQ(2u, process1.pids.size()) << lines;
  uint64_t own = KJ_REQUIRE_NONNULL(boundingSetOf(readFile("/proc/self/status")));
  uint64_t expected[] = {uint64_t{1} << CAP_SYS_MODULE | uint64_t{1} << CAP_SETPCAP,
                         uint64_t{1} << CAP_SYS_RAWIO};
  for (auto i : kj::zeroTo(2)) {
    auto status = readFile(kj::str("/proc/", process1.pids[i], "/status"));
    EXPECT_EQ(expected[i] & own, KJ_REQUIRE_NONNULL(boundingSetOf(status))) << status.cStr();
    for (auto line : {"\nNoNewPrivs:\t1\n", "\nSeccomp:\t2\n"}) {
      EXPECT_NE(nullptr, strstr(status.cStr(), line)) << status.cStr();
    }
  }
}

}  // namespace
}  // namespace talos::machined
