#include "vipd/guarded-section.h"

#include <kj/debug.h>
#include <kj/io.h>
#include <linux/netlink.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace talos::vipd {
namespace {

constexpr char kTooLate[] =
    "level=warn message=\"paused for too long to be sure of the shared address; exiting\"\n";

constexpr int64_t kSecond = 1'000'000'000;

// The change that the signal's handler reverts. The signal may arrive at any time while its timer
// is set. So this is set before the timer, and cleared after the timer.
struct {
  int socket = -1;
  const kj::byte* bytes = nullptr;
  size_t size = 0;
} toUndo;

// The kernel executes a message before the send returns, whether the answer is read or not.
void endAtOnce(int) {
  if (toUndo.size > 0) (void)!send(toUndo.socket, toUndo.bytes, toUndo.size, 0);
  (void)!write(STDERR_FILENO, kTooLate, sizeof(kTooLate) - 1);
  _exit(1);
}

class RealGuard final : public Guard {
 public:
  RealGuard() {
    int fd;
    KJ_SYSCALL(fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    kernel = kj::AutoCloseFd(fd);
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    KJ_SYSCALL(connect(kernel, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
    struct sigaction action{};
    action.sa_handler = endAtOnce;
    KJ_SYSCALL(sigaction(SIGALRM, &action, nullptr));
    sigset_t alone;
    sigemptyset(&alone);
    sigaddset(&alone, SIGALRM);
    KJ_SYSCALL(sigprocmask(SIG_UNBLOCK, &alone, nullptr));
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    KJ_SYSCALL(timer_create(CLOCK_MONOTONIC, &event, &timer));
  }
  ~RealGuard() noexcept(false) { timer_delete(timer); }
  KJ_DISALLOW_COPY_AND_MOVE(RealGuard);

  bool before(kj::TimePoint latest, kj::ArrayPtr<const kj::byte> undo,
              kj::FunctionParam<void()> body) override {
    auto& clock = kj::systemPreciseMonotonicClock();
    if (clock.now() >= latest) return false;
    toUndo = {kernel, undo.begin(), undo.size()};
    set(latest);
    KJ_DEFER(clear());
    // Checks again, now that the timer covers the instructions between this check and the body.
    if (clock.now() >= latest) return false;
    body();
    return true;
  }

 private:
  kj::AutoCloseFd kernel;
  timer_t timer;

  // Sets the timer by its own clock, which is read first: a pause between the two readings makes
  // the timer earlier, not later.
  void set(kj::TimePoint latest) {
    timespec now;
    KJ_SYSCALL(clock_gettime(CLOCK_MONOTONIC, &now));
    auto left = (latest - kj::systemPreciseMonotonicClock().now()) / kj::NANOSECONDS;
    auto at = now.tv_sec * kSecond + now.tv_nsec + left;
    arm(at > 0 ? at : 1);
  }
  void clear() {
    arm(0);
    toUndo = {};
  }
  void arm(int64_t at) {
    itimerspec when{};
    when.it_value = {.tv_sec = at / kSecond, .tv_nsec = at % kSecond};
    KJ_SYSCALL(timer_settime(timer, TIMER_ABSTIME, &when, nullptr));
  }
};

}  // namespace

kj::Own<Guard> makeGuard() {
  return kj::heap<RealGuard>();
}

}  // namespace talos::vipd
