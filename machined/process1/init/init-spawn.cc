#include "machined/process1/init/init-spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

#include "machined/process1/init/init-console.h"

namespace talos::process1 {
namespace {

constexpr int kAboveAll = kMaxPassedAs + 1;

// Marks the programs of this system, which have a handler that shows their stack (common/crash).
constexpr char kPage[] = "TALOS_SERVICE_PAGE_FD=";
constexpr int kShowStack = SIGUSR2;

bool showsItsStack(char* const* environment) {
  for (auto one = environment; *one != nullptr; ++one) {
    if (strncmp(*one, kPage, sizeof kPage - 1) == 0) return true;
  }
  return false;
}

[[noreturn]] void fail(int status, const char* step) {
  Failure failure = {};
  failure.error = errno;
  strncpy(failure.step, step, sizeof(failure.step) - 1);
  ssize_t written = write(status, &failure, sizeof(failure));
  (void)written;
  _exit(127);
}

// Runs the child before exec. No code here may rely on changing the parent's memory.
[[noreturn]] void becomeChild(const Launch& launch, int entrance, int status) {
  // Sources and the status pipe move above all targets first: no dup2 can hit one that is still
  // needed.
  status = fcntl(status, F_DUPFD_CLOEXEC, kAboveAll);
  if (status < 0) _exit(127);
  if (entrance >= 0 && write(entrance, "0", 1) < 0) fail(status, "enter the cgroup for memory");
  int output = -1;
  if (launch.output >= 0) {
    output = fcntl(launch.output, F_DUPFD_CLOEXEC, kAboveAll);
    if (output < 0) fail(status, "duplicate the output");
  }
  int moved[kMaxPassed];
  for (unsigned i = 0; i < launch.passed; ++i) {
    moved[i] = fcntl(launch.fds[i], F_DUPFD_CLOEXEC, kAboveAll);
    if (moved[i] < 0) fail(status, "duplicate a descriptor");
  }
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) fail(status, "open /dev/null");
  if (output < 0) output = null;
  if (dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) fail(status, "set 0, 1, 2");
  // exec must leave them open: dup2 of a descriptor onto itself would keep close-on-exec.
  for (int fd = 0; fd < 3; ++fd) fcntl(fd, F_SETFD, 0);
  for (unsigned i = 0; i < launch.passed; ++i) {
    if (dup2(moved[i], launch.as[i]) < 0) fail(status, "pass a descriptor");
  }
  setsid();
  if (chdir("/") != 0) fail(status, "enter /");
  umask(022);
  if (launch.oomScore != 0) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    Line line;
    line.add(launch.oomScore);
    // Best effort: a container may not be allowed to.
    if (fd >= 0 && write(fd, line.text(), line.size()) < 0) errno = 0;
  }
  for (int number = 1; number <= 64; ++number) {
    if (number != SIGKILL && number != SIGSTOP) signal(number, SIG_DFL);
  }
  // A request for its stack must not end a program before it has its handler.
  if (showsItsStack(launch.environment)) signal(kShowStack, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(launch.argv[0], launch.argv, launch.environment);
  fail(status, "exec");
}

void passControllersOn(int parent) {
  int fd = openat(parent, "cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  // Written one at a time, because a kernel that lacks one of them would refuse the whole line.
  for (const char* controller : {"+cpu", "+memory", "+io", "+pids", "+cpuset"}) {
    if (write(fd, controller, strlen(controller)) < 0) continue;
  }
  close(fd);
}

void setReason(char* reason, const char* step, const char* what, int error) {
  Line line;
  line.add("cannot ").add(step).add(" ").add(what).add(": ").add(errorText(error));
  strncpy(reason, line.text(), kReasonSize - 1);
  reason[kReasonSize - 1] = 0;
}

}  // namespace

int makeCgroup(const char* root, const char* path) {
  int parent = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0) return errno;
  int result = 0;
  while (*path != 0) {
    const char* end = strchrnul(path, '/');
    char part[kCgroupSize];
    size_t size = static_cast<size_t>(end - path);
    memcpy(part, path, size);
    part[size] = 0;
    if (mkdirat(parent, part, 0755) == 0) {
      passControllersOn(parent);
    } else if (errno != EEXIST) {
      result = errno;
      break;
    }
    int next = openat(parent, part, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (next < 0) {
      result = errno;
      break;
    }
    close(parent);
    parent = next;
    path = *end == 0 ? end : end + 1;
  }
  close(parent);
  return result;
}

int enterCgroup(const char* root, const char* name) {
  int parent = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0) return errno;
  char procs[kCgroupSize + 16];
  snprintf(procs, sizeof(procs), "%s/cgroup.procs", name);
  int error = mkdirat(parent, name, 0755) != 0 && errno != EEXIST ? errno : 0;
  int entrance = error == 0 ? openat(parent, procs, O_WRONLY | O_CLOEXEC) : -1;
  if (error == 0 && (entrance < 0 || write(entrance, "0", 1) != 1)) error = errno;
  if (entrance >= 0) close(entrance);
  if (error == 0) passControllersOn(parent);
  close(parent);
  return error;
}

int limitMemory(int cgroup, uint64_t bytes) {
  const char* none = "max";
  int fd = openat(cgroup, "memory.max", O_WRONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    none = "-1";
    fd = openat(cgroup, "memory.limit_in_bytes", O_WRONLY | O_CLOEXEC);
  }
  if (fd < 0) return errno == ENOENT ? 0 : errno;
  Line line;
  if (bytes == 0) {
    line.add(none);
  } else {
    line.add(static_cast<int64_t>(bytes));
  }
  int error = write(fd, line.text(), line.size()) < 0 ? errno : 0;
  close(fd);
  return error;
}

namespace {

// Opens the child's cgroup below `root`, makes it if it is missing, and limits its memory. Returns
// -1 with `error` set and described in `reason` on failure.
int openCgroup(const char* root, const Launch& launch, int& error, char* reason) {
  const char* name = launch.cgroup[0] == 0 ? "init" : launch.cgroup;
  error = makeCgroup(root, name);
  int cgroup = -1;
  char path[256 + kCgroupSize];
  snprintf(path, sizeof(path), "%s/%s", root, name);
  const char* step = "make the cgroup";
  if (error == 0) {
    cgroup = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (cgroup < 0) error = errno;
  }
  // The cgroup of process 1 and the brain is never limited.
  if (error == 0 && strcmp(name, "init") != 0) {
    error = limitMemory(cgroup, launch.memoryMax);
    step = "limit the memory of";
  }
  if (error != 0) {
    if (cgroup >= 0) close(cgroup);
    setReason(reason, step, path, error);
    return -1;
  }
  return cgroup;
}

// Opens the file through which a process enters its cgroup of version 1; -1 as above.
int openEntrance(const Launch& launch, int& error, char* reason) {
  int folder = openCgroup(launch.memoryRoot, launch, error, reason);
  if (folder < 0) return -1;
  int entrance = openat(folder, "cgroup.procs", O_WRONLY | O_CLOEXEC);
  error = entrance < 0 ? errno : 0;
  close(folder);
  if (entrance < 0) setReason(reason, "enter the cgroup of", launch.cgroup, error);
  return entrance;
}

}  // namespace

int launch(const Launch& launch, Launched& launched, char* reason) {
  int error = 0, cgroup = -1, entrance = -1;
  if (launch.cgroupRoot[0] != 0) {
    cgroup = openCgroup(launch.cgroupRoot, launch, error, reason);
    if (cgroup < 0) return error;
  }
  if (launch.memoryRoot[0] != 0) {
    entrance = openEntrance(launch, error, reason);
    if (entrance < 0) {
      if (cgroup >= 0) close(cgroup);
      return error;
    }
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    error = errno;
    if (cgroup >= 0) close(cgroup);
    if (entrance >= 0) close(entrance);
    setReason(reason, "make", "a pipe", error);
    return error;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);

  struct clone_args args = {};
  args.flags = CLONE_PIDFD | (cgroup >= 0 ? CLONE_INTO_CGROUP : 0);
  int pidfd = -1;
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  args.cgroup = cgroup >= 0 ? static_cast<uint64_t>(cgroup) : 0;
  long pid = syscall(SYS_clone3, &args, sizeof(args));
  if (pid == 0) becomeChild(launch, entrance, ends[1]);
  error = pid < 0 ? errno : 0;
  close(ends[1]);
  if (cgroup >= 0) close(cgroup);
  if (entrance >= 0) close(entrance);
  if (pid < 0) {
    close(ends[0]);
    setReason(reason, "start", launch.argv[0], error);
    return error;
  }
  launched.pid = static_cast<int>(pid);
  launched.pidfd = pidfd;
  launched.status = ends[0];
  return 0;
}

}  // namespace talos::process1
