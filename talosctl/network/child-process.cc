#include "talosctl/network/child-process.h"

#include <errno.h>
#include <kj/debug.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace talos::cluster {

kj::String Exit::describe() const {
  return killed ? kj::str("killed by signal ", status) : kj::str("exited with status ", status);
}

ChildProcess::~ChildProcess() noexcept(false) {
  if (ended) return;
  signal(SIGKILL);
  siginfo_t info;
  while (waitid(static_cast<idtype_t>(P_PIDFD), pidfd.get(), &info, WEXITED) < 0 &&
         errno == EINTR) {
  }
}

kj::Promise<Exit> ChildProcess::onExit() {
  kj::UnixEventPort::FdObserver observer(port, pidfd, kj::UnixEventPort::FdObserver::OBSERVE_READ);
  for (;;) {
    auto ready =
        observer.whenBecomesReadable();  // before the check: the observer is edge-triggered
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
  signal(SIGSTOP);
  siginfo_t info;
  while (waitid(static_cast<idtype_t>(P_PIDFD), pidfd.get(), &info, WSTOPPED | WEXITED | WNOWAIT) <
             0 &&
         errno == EINTR) {
  }
}

}  // namespace talos::cluster
