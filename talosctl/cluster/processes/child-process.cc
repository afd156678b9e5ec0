#include "talosctl/cluster/processes/child-process.h"

#include <errno.h>
#include <kj/debug.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "talosctl/cluster/processes/monotonic-clock.h"

namespace talos::cluster {
namespace {

constexpr int kStopTimeout = 500, kEndTimeout = 5000;  // milliseconds

}  // namespace

kj::String Exit::describe() const {
  return killed ? kj::str("killed by signal ", status) : kj::str("exited with status ", status);
}

ChildProcess::~ChildProcess() noexcept(false) {
  if (ended) return;
  signal(SIGKILL);
  struct pollfd end = {pidfd, POLLIN, 0};
  int n;
  do {
    n = poll(&end, 1, kEndTimeout);
  } while (n < 0 && errno == EINTR);
  siginfo_t info = {};
  waitid(static_cast<idtype_t>(P_PIDFD), pidfd.get(), &info, WEXITED | WNOHANG);
  if (info.si_pid == 0) log::warn("a killed process does not exit", {{"pid", processId}});
}

kj::Promise<Exit> ChildProcess::onExit() {
  kj::UnixEventPort::FdObserver observer(port, pidfd, kj::UnixEventPort::FdObserver::OBSERVE_READ);
  for (;;) {
    auto ready =
        observer.whenBecomesReadable();  // must be before the check: the observer is edge-triggered
    siginfo_t info = {};
    KJ_SYSCALL(waitid(static_cast<idtype_t>(P_PIDFD), pidfd.get(), &info, WEXITED | WNOHANG));
    if (info.si_pid != 0) {
      ended = true;
      co_return Exit{.killed = info.si_code != CLD_EXITED, .status = info.si_status};
    }
    co_await ready;
  }
}

void ChildProcess::signal(int number) {
  syscall(SYS_pidfd_send_signal, pidfd.get(), number, nullptr, 0);
}

void ChildProcess::stop() {
  // The kernel sends SIGCHLD when the process has stopped. The signal is blocked, so that it is not
  // lost before the wait.
  sigset_t child, before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &child, &before);
  KJ_DEFER(pthread_sigmask(SIG_SETMASK, &before, nullptr));
  signal(SIGSTOP);
  for (auto until = monotonicMilliseconds() + kStopTimeout;;) {
    siginfo_t info = {};
    KJ_SYSCALL(waitid(static_cast<idtype_t>(P_PIDFD), pidfd.get(), &info,
                      WSTOPPED | WEXITED | WNOHANG | WNOWAIT));
    if (info.si_pid != 0) return;
    auto left = until - monotonicMilliseconds();
    if (left <= 0) break;
    timespec time = {.tv_sec = 0, .tv_nsec = left * 1000000};
    sigtimedwait(&child, nullptr, &time);
  }
  signal(SIGCONT);
  fail(ErrorKind::kDeadlineExceeded,
       kj::str("process ", processId, " did not stop within ", kStopTimeout, " ms; it continues"));
}

}  // namespace talos::cluster
