#include "machined/confined/parser-client/confined-process.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/node-messages.h"

namespace talos::machined {
namespace {

// Files that c-ares reads.
constexpr kj::StringPtr kFilesOfNames[] = {"/etc/resolv.conf"_kj, "/etc/hosts"_kj,
                                           "/etc/nsswitch.conf"_kj, "/etc/host.conf"_kj};

// libblkid looks up here if a disk is a whole disk: only on whole disks it looks for array members.
constexpr kj::StringPtr kDevices = "/sys/devices"_kj;

// Moves `fd` above all numbers that the child gets, so that none is replaced before it was copied.
kj::AutoCloseFd moveAboveChildFds(int fd) {
  int copy;
  KJ_SYSCALL(copy = fcntl(fd, F_DUPFD_CLOEXEC, 64));
  return kj::AutoCloseFd(copy);
}

class SpawnActions {
 public:
  SpawnActions() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDWR, 0);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  KJ_DISALLOW_COPY_AND_MOVE(SpawnActions);

  void pass(int fd, int as) { posix_spawn_file_actions_adddup2(&files, fd, as); }
  void closeFrom(int first) { posix_spawn_file_actions_addclosefrom_np(&files, first); }
  pid_t spawn(kj::ArrayPtr<const kj::String> command) {
    auto argv = kj::heapArrayBuilder<char*>(command.size() + 1);
    for (auto& argument : command) argv.add(const_cast<char*>(argument.cStr()));
    argv.add(nullptr);
    char* environment[] = {nullptr};
    pid_t pid;
    int error = posix_spawn(&pid, argv[0], &files, &attributes, argv.begin(), environment);
    if (error != 0) KJ_FAIL_SYSCALL("posix_spawn", error, command[0]);
    return pid;
  }

 private:
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

// An unreaped child keeps its number, so this pidfd is that child's.
kj::AutoCloseFd pidfdOf(pid_t pid) {
  long fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) {
    int error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    KJ_FAIL_SYSCALL("pidfd_open", error);
  }
  return kj::AutoCloseFd(static_cast<int>(fd));
}

void killProcess(int pidfd) {
  syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
}

kj::String describe(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return kj::str(messages::kExitedWithStatus, info.si_status);
  return kj::str("killed by signal ", info.si_status, " (", strsignal(info.si_status), ")");
}

}  // namespace

kj::Vector<kj::String> parserCommand(const ParserPrograms& programs, kj::Duration timeout,
                                     ParserRights rights) {
  bool names = rights == ParserRights::kNames;
  auto profile = names ? "resolver"_kj : rights == ParserRights::kDisk ? "prober"_kj : "parser"_kj;
  kj::Vector<kj::String> argv;
  argv.add(kj::str(programs.confine.size() > 0 ? programs.confine : programs.parse));
  argv.add(kj::str("--uid=", kParserUid));
  argv.add(kj::str("--seccomp=", profile));
  argv.add(
      kj::str("--landlock-read=", programs.parse));  // enters a ruleset that allows nothing else
  if (names) {
    // The wrapper fails when a file of its options does not exist.
    for (auto file : kFilesOfNames) {
      if (access(file.cStr(), F_OK) == 0) argv.add(kj::str("--landlock-read=", file));
    }
  }
  if (rights == ParserRights::kDisk) argv.add(kj::str("--landlock-read=", kDevices));
  argv.add(kj::str("--rlimit=as=", kParserMemory));
  argv.add(kj::str("--rlimit=cpu=", timeout / kj::SECONDS + 1));
  for (auto none : {"core", "memlock"}) argv.add(kj::str("--rlimit=", none, "=0"));
  // The process's two, those of KJ's loop, and two sockets for each of three DNS servers.
  argv.add(kj::str("--rlimit=nofile=", names ? 32 : 16));
  argv.add(kj::str("--oom-score=1000"));
  argv.add(kj::str("--lifetime=", getpid()));
  argv.add(kj::str("--output=none"));
  argv.add(kj::str("--"));
  argv.add(kj::str(programs.parse));
  return argv;
}

ConfinedChild::ConfinedChild(kj::AsyncIoContext& io, const ParserPrograms& programs, int connection,
                             kj::Duration timeout, ParserRights rights)
    : ConfinedChild(io, parserCommand(programs, timeout, rights), connection) {}

ConfinedChild::ConfinedChild(kj::AsyncIoContext& io, kj::ArrayPtr<const kj::String> command,
                             int connection)
    : port(io.unixEventPort) {
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  kj::AutoCloseFd ours(ends[0]), theirs(ends[1]);
  auto request = moveAboveChildFds(theirs);
  theirs = nullptr;
  kj::AutoCloseFd handed;
  SpawnActions actions;
  actions.pass(request, kParserRequestFd);
  int passed = kParserRequestFd;
  if (connection >= 0) {
    handed = moveAboveChildFds(connection);
    actions.pass(handed, passed = kParserConnectionFd);
  }
  actions.closeFrom(passed + 1);
  pidfd = pidfdOf(actions.spawn(command));
  socket = io.lowLevelProvider->wrapSocketFd(kj::mv(ours));
}

ConfinedChild::~ConfinedChild() noexcept(false) {
  killProcess(pidfd);  // has no effect on a reaped process
}

kj::Promise<kj::String> ConfinedChild::end(kj::Own<ConfinedChild> child) {
  killProcess(child->pidfd);
  kj::UnixEventPort::FdObserver gone(child->port, child->pidfd,
                                     kj::UnixEventPort::FdObserver::OBSERVE_READ);
  for (;;) {
    siginfo_t info = {};
    KJ_SYSCALL(waitid(P_PIDFD, static_cast<id_t>(child->pidfd.get()), &info, WEXITED | WNOHANG));
    if (info.si_pid != 0) co_return describe(info);
    co_await gone.whenBecomesReadable();
  }
}

}  // namespace talos::machined
