// The properties of the real kernel that the fence depends on. Needs root.
#include <gtest/gtest.h>
#include <linux/if_addr.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <future>

#include "common/netlink/netlink-codec.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-namespace.h"
#include "vipd/fence-times.h"
#include "vipd/guarded-section.h"

namespace talos::vipd {
namespace {

auto& clock() {
  return kj::systemPreciseMonotonicClock();
}

netlink::Change ending(unsigned link, kj::StringPtr ip, unsigned seconds) {
  return netlink::AddAddress{.address = {.link = link,
                                         .prefix = Prefix::host(Ip::require(ip)),
                                         .flags = IFA_F_NODAD | IFA_F_NOPREFIXROUTE,
                                         .protocol = netlink::kSharedAddress},
                             .replace = true,
                             .lifetime = seconds};
}

bool has(netlink::Kernel& kernel, kj::StringPtr ip) {
  auto wanted = Ip::require(ip);
  for (auto& address : kernel.addresses()) {
    if (address.prefix.address == wanted) return true;
  }
  return false;
}

// Waits until the address is gone, and returns the milliseconds since `begin`.
int64_t untilGone(netlink::Kernel& kernel, kj::StringPtr ip, kj::TimePoint begin) {
  while (has(kernel, ip)) {
    KJ_REQUIRE(clock().now() - begin < 60 * kj::SECONDS, "it stays");
    usleep(2000);
  }
  return (clock().now() - begin) / kj::MILLISECONDS;
}

// Catches: a kernel that removes an address later than the fence assumes, even if another address
// changes shortly before the end, which delays the kernel's next look by a second; and a lifetime
// that is not restarted. The bound has room for a busy host; kKernelLate is the promised limit.
TEST(FenceKernel, TakesAddressesAwayByItself) {
  inNamespace([] {
    auto kernel = netlink::openKernel();
    unsigned link = netlink::addVeth(*kernel, "left", "right");
    netlink::setUp(*kernel, link);
    netlink::setUp(*kernel, netlink::indexOf(*kernel, "right"));
    auto busy = 3000 * kj::MILLISECONDS;
    for (auto ip : {"10.5.0.50"_kj, "fd00::50"_kj}) {
      netlink::change(*kernel, ending(link, ip, 1));
      usleep(700'000);
      auto restarted = clock().now();
      netlink::change(*kernel, ending(link, ip, 1));
      auto plain = untilGone(*kernel, ip, restarted);
      EXPECT_GE(plain, 970) << ip.cStr();
      EXPECT_LE(plain, (1 * kj::SECONDS + kKernelLate + busy) / kj::MILLISECONDS) << ip.cStr();

      auto begin = clock().now();
      netlink::change(*kernel, ending(link, ip, 1));
      usleep(900'000);
      auto other = ip.startsWith("10") ? "10.9.0.1"_kj : "fd00::99"_kj;
      netlink::change(*kernel, ending(link, other, 60));
      auto disturbed = untilGone(*kernel, ip, begin);
      EXPECT_LE(disturbed, (1 * kj::SECONDS + kKernelLate + busy) / kj::MILLISECONDS) << ip.cStr();
      RecordProperty(kj::str(ip, " plain").cStr(), int(plain));
      RecordProperty(kj::str(ip, " disturbed").cStr(), int(disturbed));
      netlink::change(*kernel, netlink::DeleteAddress{
                                   {.link = link, .prefix = Prefix::host(Ip::require(other))}});
    }
  });
}

// Catches: a guard that lets a late body start, or that ends a process that was in time.
TEST(GuardedSection, DoesWhatIsInTimeAndNothingElse) {
  auto guard = makeGuard();
  int done = 0;
  EXPECT_TRUE(guard->before(clock().now() + 1 * kj::SECONDS, nullptr, [&] { ++done; }));
  EXPECT_FALSE(guard->before(clock().now(), nullptr, [&] { ++done; }));
  EXPECT_FALSE(guard->before(clock().now() - 1 * kj::SECONDS, nullptr, [&] { ++done; }));
  EXPECT_EQ(1, done);
  // No timer stays that would end the process later.
  EXPECT_TRUE(guard->before(clock().now() + 500 * kj::MILLISECONDS, nullptr, [&] { ++done; }));
  timespec rest{.tv_sec = 0, .tv_nsec = 550'000'000};
  nanosleep(&rest, nullptr);
  EXPECT_EQ(2, done);
}

// Catches: a process that is stopped between its check of the clock and the system call, and makes
// the call when it continues.
TEST(GuardedSection, WhoWasStoppedInsideNeverComesToTheCall) {
  int ends[2];
  KJ_SYSCALL(pipe(ends));
  pid_t child;
  KJ_SYSCALL(child = fork());
  if (child == 0) {
    auto guard = makeGuard();
    guard->before(clock().now() + 1 * kj::SECONDS, nullptr, [&] {
      raise(SIGSTOP);
      (void)!write(ends[1], "x", 1);  // the call
    });
    _exit(0);
  }
  close(ends[1]);
  int status;
  KJ_SYSCALL(waitpid(child, &status, WUNTRACED));
  ASSERT_TRUE(WIFSTOPPED(status));
  usleep(1'100'000);
  kill(child, SIGCONT);
  KJ_SYSCALL(waitpid(child, &status, 0));
  char got;
  EXPECT_EQ(0, read(ends[0], &got, 1));  // the end of the pipe, without the call's byte
  close(ends[0]);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

// Catches: an address that the kernel added late, and that stays for its lifetime after its holder
// has ended. The blocked signal stands for a late kernel: it arrives after the call.
TEST(LateAddress, IsTakenBackByWhoEndsForIt) {
  inNamespace([] {
    auto kernel = netlink::openKernel();
    unsigned link = netlink::addVeth(*kernel, "left", "right");
    netlink::setUp(*kernel, link);
    for (auto ip : {"10.5.0.50"_kj, "fd00::50"_kj}) {
      pid_t child;
      KJ_SYSCALL(child = fork());
      if (child == 0) {
        auto mine = netlink::openKernel();
        auto guard = makeGuard();
        auto late = ending(link, ip, 60);
        auto undo =
            netlink::encode(netlink::DeleteAddress{late.get<netlink::AddAddress>().address});
        auto latest = clock().now() + 50 * kj::MILLISECONDS;
        guard->before(latest, undo, [&] {
          sigset_t alarm;
          sigemptyset(&alarm);
          sigaddset(&alarm, SIGALRM);
          KJ_SYSCALL(sigprocmask(SIG_BLOCK, &alarm, nullptr));
          netlink::change(*mine, kj::mv(late));
          if (!has(*mine, ip)) _exit(2);
          sigset_t pending;
          do {
            KJ_SYSCALL(sigpending(&pending));
          } while (sigismember(&pending, SIGALRM) == 0);
          KJ_SYSCALL(sigprocmask(SIG_UNBLOCK, &alarm, nullptr));
        });
        _exit(3);
      }
      int status;
      KJ_SYSCALL(waitpid(child, &status, 0));
      EXPECT_TRUE(WIFEXITED(status));
      EXPECT_EQ(1, WEXITSTATUS(status));
      EXPECT_FALSE(has(*kernel, ip)) << ip.cStr();
    }
  });
}

}  // namespace
}  // namespace talos::vipd
