#include "machined/confine/seccomp.h"

#include <asm/termbits.h>
#include <errno.h>
#include <kj/debug.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <seccomp.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/error.h"

namespace talos::confine {
namespace {

constexpr const char* kCommon[] = {
    // memory, time, identity, limits
    "brk",
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "mlock",
    "mlock2",
    "munlock",
    "membarrier",
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "time",
    "times",
    "getpid",
    "getppid",
    "gettid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getgroups",
    "getresuid",
    "getresgid",
    "getpgrp",
    "getpgid",
    "getsid",
    "getrlimit",
    "prlimit64",
    "getrusage",
    "sysinfo",
    "uname",
    "getrandom",
    "getcpu",
    "umask",
    "capget",
    "arch_prctl",
    // threads and signals
    "futex",
    "futex_waitv",
    "set_robust_list",
    "get_robust_list",
    "set_tid_address",
    "rseq",
    "sched_yield",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "exit",
    "exit_group",
    "tgkill",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigpending",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "sigaltstack",
    "restart_syscall",
    "pause",
    // descriptors and waiting
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "lseek",
    "pipe",
    "pipe2",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd2",
    "timerfd_create",
    "timerfd_settime",
    "timerfd_gettime",
    "signalfd4",
    "memfd_create",
    "sendfile",
    "splice",
    "copy_file_range",
    "inotify_init1",
    "inotify_add_watch",
    "inotify_rm_watch",
    // files; which ones is Landlock's part
    "open",
    "openat",
    "stat",
    "fstat",
    "lstat",
    "newfstatat",
    "statx",
    "statfs",
    "fstatfs",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getdents64",
    "getcwd",
    "mkdir",
    "mkdirat",
    "unlink",
    "unlinkat",
    "rmdir",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "ftruncate",
    "fallocate",
    "fadvise64",
    "fsync",
    "fdatasync",
    "flock",
    "chmod",
    "fchmod",
    "fchmodat",
    "utimensat",
    // sockets; which families is below
    "socketpair",
    "bind",
    "listen",
    "accept",
    "accept4",
    "connect",
    "shutdown",
    "getsockname",
    "getpeername",
    "getsockopt",
    "setsockopt",
    "sendto",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "sendmmsg",
    "recvmmsg",
};

// Memory, the clock, what it has open already.
constexpr const char* kParser[] = {
    "brk",
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "clock_gettime",
    "gettimeofday",
    "getpid",
    "gettid",
    "getrandom",
    "getrlimit",
    "prlimit64",
    "sysinfo",
    "arch_prctl",
    "futex",
    "set_robust_list",
    "set_tid_address",
    "rseq",
    "sched_getaffinity",
    "exit",
    "exit_group",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    "restart_syscall",
    "read",
    "write",
    "readv",
    "writev",
    "recvfrom",
    "sendto",
    "recvmsg",
    "sendmsg",
    "shutdown",
    "getsockopt",
    "getsockname",
    "getpeername",
    "close",
    "fcntl",
    "fstat",
    "poll",
    "ppoll",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd2",
    "timerfd_create",
    "timerfd_settime",
    "signalfd4",
    // KJ's loop has one, to be woken by signals.
    "pipe2",
};

struct Profile {
  kj::StringPtr name;
  kj::ArrayPtr<const char* const> calls;
  bool sockets, network, threads;
};
constexpr Profile kProfiles[] = {{"server"_kj, kCommon, true, false, true},
                                 {"network"_kj, kCommon, true, true, true},
                                 {"parser"_kj, kParser, false, false, false}};

class Filter {
 public:
  Filter() : context(seccomp_init(SCMP_ACT_ERRNO(EPERM))) {
    KJ_REQUIRE(context != nullptr, "no memory for a system call filter");
    set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    set(SCMP_FLTATR_CTL_OPTIMIZE, 2);  // a tree: tens of comparisons less for each call
  }
  ~Filter() { seccomp_release(context); }
  KJ_DISALLOW_COPY_AND_MOVE(Filter);

  void allow(const char* name) { rule(SCMP_ACT_ALLOW, name, {}); }
  void allowIf(const char* name, scmp_arg_cmp condition) {
    rule(SCMP_ACT_ALLOW, name, {condition});
  }
  void refuse(const char* name, int error) { rule(SCMP_ACT_ERRNO(error), name, {}); }
  void load() {
    int result = seccomp_load(context);
    KJ_REQUIRE(result == 0, "the kernel refused the system call filter", strerror(-result));
  }

 private:
  scmp_filter_ctx context;

  void set(scmp_filter_attr attribute, uint32_t value) {
    int result = seccomp_attr_set(context, attribute, value);
    KJ_REQUIRE(result == 0, "seccomp attribute", static_cast<int>(attribute), strerror(-result));
  }
  void rule(uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> conditions) {
    int number = seccomp_syscall_resolve_name(name);
    KJ_REQUIRE(number != __NR_SCMP_ERROR, "no such system call", name);
    int result = seccomp_rule_add_array(
        context, action, number, static_cast<unsigned>(conditions.size()), conditions.begin());
    KJ_REQUIRE(result == 0, "seccomp rule", name, strerror(-result));
  }
};

void allowSockets(Filter& filter, bool network) {
  for (int family : {AF_UNIX, AF_INET, AF_INET6}) {
    filter.allowIf("socket", SCMP_A0(SCMP_CMP_EQ, static_cast<uint64_t>(family)));
  }
  if (!network) return;
  for (int family : {AF_NETLINK, AF_PACKET}) {
    filter.allowIf("socket", SCMP_A0(SCMP_CMP_EQ, static_cast<uint64_t>(family)));
  }
}

void allowIoctls(Filter& filter, bool network) {
  for (unsigned long request :
       {0x5421ul /* FIONBIO */, 0x5451ul /* FIOCLEX */, 0x5450ul /* FIONCLEX */,
        0x541Bul /* FIONREAD */, 0x5411ul /* TIOCOUTQ */, 0x5401ul /* TCGETS */}) {
    filter.allowIf("ioctl", SCMP_A1(SCMP_CMP_EQ, request));
  }
  // All of 0x89xx: interfaces, addresses, bonds, bridges, ethtool.
  if (network) filter.allowIf("ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffff00u, 0x8900u));
}

}  // namespace

void installFilter(kj::StringPtr profile, const char* program) {
  const Profile* found = nullptr;
  for (auto& p : kProfiles) {
    if (p.name == profile) found = &p;
  }
  if (found == nullptr) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", profile, "\" is not a valid seccomp profile; use one of ",
                 kj::strArray(KJ_MAP(p, kProfiles) { return p.name; }, ", ")));
  }
  Filter filter;
  for (auto* name : found->calls) filter.allow(name);
  // A new thread yes, a new process no. clone3 hides its flags in memory, where a filter cannot
  // look: "not implemented" makes the C library take clone.
  constexpr uint64_t kThread = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;
  constexpr uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                   CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  if (found->threads) {
    filter.allowIf("clone", SCMP_A0(SCMP_CMP_MASKED_EQ, kThread | kNamespaces, kThread));
    filter.refuse("clone3", ENOSYS);
  }
  // The names of threads and of memory; not the capability and mode calls.
  for (unsigned option :
       {15u /* PR_SET_NAME */, 16u /* PR_GET_NAME */, 38u /* PR_SET_NO_NEW_PRIVS */,
        3u /* PR_GET_DUMPABLE */, 4u /* PR_SET_DUMPABLE */, 0x53564d41u /* PR_SET_VMA */}) {
    filter.allowIf("prctl", SCMP_A0(SCMP_CMP_EQ, option));
  }
  filter.allowIf("execve", SCMP_A0(SCMP_CMP_EQ, reinterpret_cast<uint64_t>(program)));
  if (found->sockets) allowSockets(filter, found->network);
  allowIoctls(filter, found->network);
  filter.load();
}

}  // namespace talos::confine
