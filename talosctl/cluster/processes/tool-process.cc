#include "talosctl/cluster/processes/tool-process.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "talosctl/cluster/processes/program-tree.h"

namespace talos::cluster {
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
