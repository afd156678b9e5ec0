#include "talosctl/cluster/processes/child-process.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "talosctl/cluster/processes/monotonic-clock.h"
#include "talosctl/cluster/processes/program-tree.h"

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

namespace {

// Runs after fork, so it makes only system calls.
[[noreturn]] void become(char* const* argv, const ToolSettings& settings, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before prctl
  if (settings.network >= 0 && setns(settings.network, CLONE_NEWNET) != 0) _exit(126);
  if (settings.ownMounts && (unshare(CLONE_NEWNS) != 0 ||
                             mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)) {
    _exit(126);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);  // KJ ignores it
  int null = open("/dev/null", O_RDWR);
  dup2(settings.input >= 0 ? settings.input : null, 0);
  dup2(null, 1);
  dup2(settings.errors, 2);
  for (int fd : settings.inherited) fcntl(fd, F_SETFD, 0);
  char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  char* environment[] = {path, nullptr};
  execve(argv[0], argv, environment);
  _exit(127);
}

}  // namespace

kj::Vector<kj::String> findTool(kj::StringPtr root, kj::StringPtr path) {
  auto found =
      findProgram(root, path, true, "run `make` in the checkout, or install it on this host");
  return inTree(found.root, found.program);
}

ToolProcess::ToolProcess(kj::UnixEventPort& port, kj::ArrayPtr<kj::String> command,
                         const ToolSettings& settings)
    : process(start(port, command, settings)) {}

kj::Own<ChildProcess> ToolProcess::start(kj::UnixEventPort& port, kj::ArrayPtr<kj::String> command,
                                         const ToolSettings& settings) {
  kj::Vector<char*> argv;
  for (auto& argument : command) argv.add(argument.begin());
  argv.add(nullptr);
  pid_t parent = getpid(), child;
  KJ_SYSCALL(child = fork());
  if (child == 0) become(argv.begin(), settings, parent);
  int raw;
  KJ_SYSCALL(raw = syscall(SYS_pidfd_open, child, 0));
  return kj::heap<ChildProcess>(port, child, kj::AutoCloseFd(raw));
}

kj::Promise<kj::Maybe<kj::String>> ToolProcess::onExit() {
  auto exit = co_await process->onExit();
  if (!exit.killed && exit.status == 0) co_return nullptr;
  co_return exit.describe();
}

}  // namespace talos::cluster
