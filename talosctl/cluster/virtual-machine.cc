#include "talosctl/cluster/virtual-machine.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace talos::cluster {
Guest::Guest(kj::UnixEventPort& port, const Qemu& qemu, kj::ArrayPtr<const kj::String> arguments,
             int tapFd, int logFd)
    : port(port) {
  auto words = commandLine(qemu, arguments);
  kj::Vector<char*> argv;
  for (auto& word : words) argv.add(word.begin());
  argv.add(nullptr);
  auto modules = kj::str("QEMU_MODULE_DIR=", qemu.root, "/usr/lib/x86_64-linux-gnu/qemu");
  char path[] = "PATH=/usr/bin:/bin";
  char* environment[] = {path, modules.begin(), nullptr};
  pid_t parent = getpid();

  KJ_SYSCALL(processId = fork());
  if (processId == 0) {
    // Only what is safe after fork: plain system calls.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before prctl
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);  // KJ ignores it
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(logFd, 1);
    dup2(logFd, 2);
    fcntl(tapFd, F_SETFD, 0);
    execve(argv[0], argv.begin(), environment);
    _exit(127);
  }
  int raw;
  KJ_SYSCALL(raw = syscall(SYS_pidfd_open, processId, 0));
  pidfd = kj::AutoCloseFd(raw);
}

kj::Promise<kj::String> Guest::onExit() {
  kj::UnixEventPort::FdObserver observer(port, pidfd, kj::UnixEventPort::FdObserver::OBSERVE_READ);
  for (;;) {
    auto ready =
        observer.whenBecomesReadable();  // before the check: the observer is edge-triggered
    siginfo_t info = {};
    KJ_SYSCALL(waitid(static_cast<idtype_t>(P_PIDFD), pidfd.get(), &info, WEXITED | WNOHANG));
    if (info.si_pid != 0) {
      co_return info.si_code == CLD_EXITED ? kj::str("exited with status ", info.si_status)
                                           : kj::str("killed by signal ", info.si_status);
    }
    co_await ready;
  }
}

void Guest::kill(int signal) {
  syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
}

}  // namespace talos::cluster
