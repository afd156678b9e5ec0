#include "talosctl/cluster/nodes/launch-supervisor.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

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
  if (chdir("/") != 0) _exit(127);  // the caller's working folder may be removed
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

// Removes the whole lines at the start of the text that name a step; leaves the rest.
void takeSteps(std::string& text, StartSteps& steps) {
  while (text.starts_with(kStartStep.cStr())) {
    auto end = text.find('\n');
    if (end == std::string::npos) return;
    steps(kj::heapString(text.data() + kStartStep.size(), end - kStartStep.size()));
    text.erase(0, end + 1);
  }
}

}  // namespace

kj::Promise<void> followStart(kj::AsyncInputStream& report, StartSteps steps, kj::StringPtr log) {
  std::string text;
  char chunk[4096];
  for (;;) {
    auto n = co_await report.tryRead(chunk, 1, sizeof chunk);
    if (n == 0) break;
    text.append(chunk, n);
    takeSteps(text, steps);
  }
  if (text == "ready\n") co_return;
  constexpr kj::StringPtr kError = "error: "_kj;
  if (text.starts_with(kError.cStr())) {
    text.pop_back();  // the line end
    fail(ErrorKind::kUnavailable, kj::str(text.c_str() + kError.size()));
  }
  fail(ErrorKind::kUnavailable, kj::str("the cluster's supervisor exited at once; see ", log));
}

kj::Promise<void> launchSupervisor(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                   kj::StringPtr stateDirectory, StartSteps steps,
                                   kj::Duration deadline) {
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
  co_await within(timer, deadline, followStart(*input, kj::mv(steps), log), kj::mv(late));
}

}  // namespace talos::cluster
