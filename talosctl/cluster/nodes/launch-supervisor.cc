#include "talosctl/cluster/nodes/launch-supervisor.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/within.h"

namespace talos::cluster {
namespace {

constexpr int kReadyFd = 3;

[[noreturn]] void becomeSupervisor(kj::StringPtr log, int ready, char* const* argv) {
  setsid();
  if (fork() != 0) _exit(0);  // the supervisor is orphaned: nothing waits for it
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  int null = open("/dev/null", O_RDONLY);
  int out = open(log.cStr(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (chdir("/") != 0) _exit(127);  // the caller's folder may be removed
  dup2(null, 0);
  dup2(out, 1);
  dup2(out, 2);
  if (ready != kReadyFd) {
    dup2(ready, kReadyFd);
  } else {
    fcntl(kReadyFd, F_SETFD, 0);
  }
  execv("/proc/self/exe", argv);
  _exit(127);
}

}  // namespace

kj::Promise<void> launchSupervisor(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                   kj::StringPtr stateDirectory, kj::Duration deadline) {
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  auto log = kj::str(stateDirectory, "/supervisor.log");
  auto folder = kj::str(stateDirectory);
  char program[] = "talosctl", command[] = "cluster-run";
  char* argv[] = {program, command, folder.begin(), nullptr};
  pid_t child;
  KJ_SYSCALL(child = fork());
  if (child == 0) becomeSupervisor(log, writing, argv);
  writing = nullptr;
  KJ_SYSCALL(waitpid(child, nullptr, 0));

  auto input = lowLevel.wrapInputFd(kj::mv(reading));
  auto late = kj::str("the cluster's supervisor was not ready within ", deadline / kj::SECONDS,
                      " s; see ", log);
  auto report = co_await within(timer, deadline, input->readAllText(), kj::mv(late));
  if (report == "ready\n") co_return;
  constexpr kj::StringPtr kError = "error: "_kj;
  if (report.startsWith(kError)) {
    fail(ErrorKind::kUnavailable, kj::heapString(report.slice(kError.size(), report.size() - 1)));
  }
  fail(ErrorKind::kUnavailable, kj::str("the cluster's supervisor exited at once; see ", log));
}

}  // namespace talos::cluster
