#include "machined/confined/sandbox/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <kj/debug.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "machined/confined/sandbox/landlock.h"
#include "machined/confined/sandbox/seccomp.h"

namespace talos::confine {
namespace {

// Best effort, like the limits: a container may not be allowed to go below its given score, and the
// program is started anyway.
void setOomScore(int score, kj::StringPtr program) {
  int fd;
  KJ_SYSCALL(fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  kj::AutoCloseFd file(fd);
  auto text = kj::str(score);
  if (write(file, text.cStr(), text.size()) >= 0) return;
  log::warn("cannot set the OOM score; going on with the one that it has",
            {{"program", program}, {"error", strerror(errno)}});
}

void setLimit(const Limit& l) {
  auto resource = static_cast<__rlimit_resource>(l.resource);
  struct rlimit both = {l.value, l.value};
  if (setrlimit(resource, &both) == 0) return;
  // The limit is above the allowed one, so all of the allowed one is set.
  KJ_SYSCALL(getrlimit(resource, &both), l.resource);
  both.rlim_cur = both.rlim_max = kj::min(both.rlim_max, l.value);
  KJ_SYSCALL(setrlimit(resource, &both), l.resource, l.value);
}

bool containsNumber(kj::ArrayPtr<const unsigned> list, unsigned value) {
  for (auto v : list) {
    if (v == value) return true;
  }
  return false;
}

void dropBoundingSet(kj::ArrayPtr<const unsigned> kept) {
  for (unsigned c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; ++c) {
    if (containsNumber(kept, c)) continue;
    KJ_SYSCALL(prctl(PR_CAPBSET_DROP, c, 0, 0, 0), c);
  }
}

void becomeUser(uid_t uid, gid_t gid) {
  // Raw system calls: the C library's wrappers would repeat the change in threads, and there are
  // none.
  KJ_SYSCALL(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
  KJ_SYSCALL(syscall(SYS_setgroups, 0, nullptr));
  KJ_SYSCALL(syscall(SYS_setresgid, gid, gid, gid), gid);
  KJ_SYSCALL(syscall(SYS_setresuid, uid, uid, uid), uid);
}

// Sets permitted, effective and inheritable, and ambient so that they pass through exec.
void setCapabilities(kj::ArrayPtr<const unsigned> kept) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {};
  for (auto c : kept) {
    auto& part = data[c / 32];
    part.permitted |= 1u << (c % 32);
    part.effective = part.inheritable = part.permitted;
  }
  KJ_SYSCALL(syscall(SYS_capset, &header, data));
  KJ_SYSCALL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
  for (auto c : kept) KJ_SYSCALL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0), c);
}

// The kernel resets this signal when the identity changes, and keeps it over execve. The filter of
// a program with this signal does not allow the program to change it.
void dieWith(pid_t parent) {
  KJ_SYSCALL(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
  if (getppid() != parent) {
    fail(ErrorKind::kFailedPrecondition, kj::str("--lifetime: process ", parent, " is gone"));
  }
}

// Runs before the filter, which may not allow the call: a later failure is reported by the exit
// status only.
constexpr int kSocketFd = 3;

void redirect(int nothing, Options::Output output) {
  KJ_SYSCALL(dup2(nothing, STDIN_FILENO));
  for (int number : {STDOUT_FILENO, STDERR_FILENO}) {
    KJ_SYSCALL(dup2(output == Options::Output::kSocket ? kSocketFd : nothing, number), number);
  }
}

}  // namespace

void enter(const Options& options, const char* program) {
  if (options.stopFirst) {
    KJ_SYSCALL(raise(SIGSTOP));
  }
  KJ_IF_MAYBE (score, options.oomScore) {
    setOomScore(*score, options.command[0]);
  }
  for (auto& l : options.limits) setLimit(l);
  kj::Maybe<kj::Own<Landlock>> landlock;
  if (!options.files.empty()) {
    if (Landlock::version() > 0) {
      landlock = kj::heap<Landlock>(options.command[0], options.files, options.withoutTcp);
    } else {
      log::warn("kernel without Landlock: only owner and mode protect files",
                {{"program", options.command[0]}});
    }
  }
  kj::AutoCloseFd nothing;
  if (options.output != Options::Output::kInherited) {
    int fd;
    KJ_SYSCALL(fd = open("/dev/null", O_RDWR | O_CLOEXEC));
    nothing = kj::AutoCloseFd(fd);
  }

  dropBoundingSet(options.capabilities);
  becomeUser(options.uid, options.gid);
  setCapabilities(options.capabilities);
  KJ_IF_MAYBE (parent, options.parent) {
    dieWith(*parent);
  }
  KJ_SYSCALL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  KJ_IF_MAYBE (l, landlock) {
    (*l)->enter();
  }
  if (nothing.get() >= 0) redirect(nothing, options.output);
  KJ_IF_MAYBE (profile, options.seccomp) {
    installFilter(*profile, program);
  }
}

void run(const Options& options) {
  auto arguments = kj::heapArrayBuilder<char*>(options.command.size() + 1);
  for (auto& a : options.command) arguments.add(const_cast<char*>(a.cStr()));
  arguments.add(nullptr);
  auto argv = arguments.finish();
  const char* program = argv[0];  // the filter allows this pointer only
  enter(options, program);
  execve(program, argv.begin(), environ);
  int error = errno;
  fail(error == ENOENT ? ErrorKind::kNotFound : ErrorKind::kInternal,
       kj::str("cannot start ", program, ": ", strerror(error)));
}

}  // namespace talos::confine
