#include "machined/confined/sandbox/seccomp.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <errno.h>
#include <kj/debug.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/kernel/refused-calls.h"

namespace talos::confine {
namespace {

// An architecture has some of these calls only under their newer names (arm64: openat for open,
// ppoll for poll), so both are listed; libseccomp leaves out those that it has not.

// Calls that every program may make, and the parser no others: memory, the clock, descriptors that
// are open already.
constexpr const char* kAlways[] = {
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

constexpr const char* kServer[] = {
    // memory, time, identity, limits
    "mlock",
    "mlock2",
    "munlock",
    "membarrier",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "time",
    "times",
    "getppid",
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
    "getrusage",
    "uname",
    "getcpu",
    "umask",
    "capget",
    // threads and signals
    "futex_waitv",
    "get_robust_list",
    "sched_yield",
    "sched_getparam",
    "sched_getscheduler",
    "tgkill",
    "rt_sigpending",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "pause",
    // descriptors and waiting
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "lseek",
    "pipe",
    "select",
    "pselect6",
    "epoll_create",
    "timerfd_gettime",
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
    "setsockopt",
    "sendmmsg",
    "recvmmsg",
};

// Further calls of a parser that resolves names. Landlock limits the files.
constexpr const char* kResolver[] = {
    "open",       "openat",   "stat",     "lstat",           "newfstatat", "access",
    "faccessat",  "lseek",    "select",   "pselect6",        "bind",       "connect",
    "setsockopt", "sendmmsg", "recvmmsg", "timerfd_gettime",
};

// Beyond the server's: nodes of mappings, the kernel's keyring, how
// urgent it is.
constexpr const char* kVolumes[] = {
    "mknod",      "mknodat",     "chown",       "lchown",      "fchown",
    "fchownat",   "add_key",     "keyctl",      "request_key", "mlockall",
    "munlockall", "getpriority", "setpriority", "sync",        "syncfs",
};

// vipd must not do late what it has decided: a timer ends it first (vipd/guarded-section.h).
constexpr const char* kNetwork[] = {"timer_create", "timer_settime", "timer_delete"};

constexpr kj::StringPtr kForeign = "foreign"_kj, kBus = "bus"_kj;

// The brain does these, which a foreign program may not: it starts programs, mounts, opens
// encrypted volumes (in the kernel's keyring), loads modules, sets the clock and the host name, and
// makes devices.
constexpr kj::StringPtr kOfTheBrain[] = {
    "fork"_kj,          "vfork"_kj,         "mount"_kj,       "umount2"_kj,       "move_mount"_kj,
    "open_tree"_kj,     "fsopen"_kj,        "fsconfig"_kj,    "fsmount"_kj,       "fspick"_kj,
    "mount_setattr"_kj, "keyctl"_kj,        "add_key"_kj,     "request_key"_kj,   "finit_module"_kj,
    "adjtimex"_kj,      "clock_adjtime"_kj, "sethostname"_kj, "setdomainname"_kj, "mknod"_kj,
    "mknodat"_kj};

bool isOfTheBrain(kj::StringPtr call) {
  for (auto name : kOfTheBrain) {
    if (name == call) return true;
  }
  return false;
}

enum class Sockets { kNone, kInternet, kUnixToo, kNetwork };
enum class Ioctls { kOfFiles, kNetwork, kDevices };
struct Profile {
  kj::StringPtr name;
  kj::ArrayPtr<const char* const> calls;  // besides what everybody may
  Sockets sockets;
  Ioctls ioctls = Ioctls::kOfFiles;
  kj::ArrayPtr<const char* const> more = nullptr;
  bool threads = false;
};
constexpr Profile kProfiles[] = {
    {.name = "server"_kj, .calls = kServer, .sockets = Sockets::kUnixToo},
    {.name = "storage"_kj, .calls = kServer, .sockets = Sockets::kUnixToo, .threads = true},
    {.name = "network"_kj,
     .calls = kServer,
     .sockets = Sockets::kNetwork,
     .ioctls = Ioctls::kNetwork,
     .more = kNetwork},
    {.name = "parser"_kj, .calls = {}, .sockets = Sockets::kNone},
    {.name = "resolver"_kj, .calls = kResolver, .sockets = Sockets::kInternet},
    {.name = "volumes"_kj,
     .calls = kServer,
     .sockets = Sockets::kNone,
     .ioctls = Ioctls::kDevices,
     .more = kVolumes,
     .threads = true}};

class Filter {
 public:
  explicit Filter(uint32_t otherwise) : context(seccomp_init(otherwise)) {
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
  void refuseIf(const char* name, scmp_arg_cmp condition) {
    rule(SCMP_ACT_ERRNO(EPERM), name, {condition});
  }
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

scmp_arg_cmp is(unsigned argument, uint64_t value) {
  return {argument, SCMP_CMP_EQ, value, 0};
}

void allowSockets(Filter& filter, Sockets which) {
  auto allow = [&](std::initializer_list<int> families) {
    for (int family : families) {
      filter.allowIf("socket", is(0, static_cast<uint64_t>(family)));
    }
  };
  if (which >= Sockets::kInternet) allow({AF_INET, AF_INET6});
  if (which >= Sockets::kUnixToo) allow({AF_UNIX});
  if (which >= Sockets::kNetwork) allow({AF_NETLINK, AF_PACKET});
}

void allowIoctls(Filter& filter, Ioctls which) {
  if (which == Ioctls::kDevices) return filter.allow("ioctl");
  for (unsigned long request :
       {0x5421ul /* FIONBIO */, 0x5451ul /* FIOCLEX */, 0x5450ul /* FIONCLEX */,
        0x541Bul /* FIONREAD */, 0x5411ul /* TIOCOUTQ */, 0x5401ul /* TCGETS */}) {
    filter.allowIf("ioctl", is(1, request));
  }
  // All of 0x89xx: interfaces, addresses, bonds, bridges, ethtool.
  if (which == Ioctls::kNetwork)
    filter.allowIf("ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffff00u, 0x8900u));
}

bool isOfIp(uint64_t family) {
  for (auto allowed : kForeignFamilies) {
    if (family == allowed) return true;
  }
  return false;
}

void loadForeign(const char* program, bool bus) {
  Filter filter(SCMP_ACT_ALLOW);
  for (auto* name : kRefusedCalls) filter.refuse(name, EPERM);
  for (uint64_t family = 0; family < AF_MAX; ++family) {
    if (bus ? family == AF_UNIX : isOfIp(family)) continue;
    filter.refuseIf("socket", is(0, family));
  }
  filter.refuseIf("socket", {0, SCMP_CMP_GE, AF_MAX, 0});
  if (!bus) filter.refuse("socketpair", EPERM);  // of Unix, all of them
  filter.refuseIf("execve", {0, SCMP_CMP_NE, reinterpret_cast<uint64_t>(program), 0});
  // Threads, and no processes, as below.
  filter.refuseIf("clone", {0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0});
  filter.refuse("clone3", ENOSYS);
  // Input of a terminal, typed by a program.
  for (uint64_t request : {TIOCSTI, TIOCLINUX}) filter.refuseIf("ioctl", is(1, request));
  filter.load();
}

}  // namespace

void installBrainFilter() {
  Filter filter(SCMP_ACT_ALLOW);
  for (auto* name : kRefusedCalls) {
    if (!isOfTheBrain(name)) filter.refuse(name, EPERM);
  }
  for (uint64_t request : {TIOCSTI, TIOCLINUX}) filter.refuseIf("ioctl", is(1, request));
  filter.load();
}

void installFilter(kj::StringPtr profile, const char* program) {
  if (profile == kForeign || profile == kBus) return loadForeign(program, profile == kBus);
  const Profile* found = nullptr;
  for (auto& p : kProfiles) {
    if (p.name == profile) found = &p;
  }
  if (found == nullptr) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", profile, "\" is not a valid seccomp profile; use one of ",
                 kj::strArray(
                     KJ_MAP(p, kProfiles) { return p.name; }, ", "),
                 ", ", kForeign, ", ", kBus));
  }
  Filter filter(SCMP_ACT_ERRNO(EPERM));
  for (auto* name : kAlways) filter.allow(name);
  for (auto* name : found->calls) filter.allow(name);
  for (auto* name : found->more) filter.allow(name);
  // The names of threads and of memory; not the capability and mode calls.
  for (unsigned option :
       {15u /* PR_SET_NAME */, 16u /* PR_GET_NAME */, 38u /* PR_SET_NO_NEW_PRIVS */,
        3u /* PR_GET_DUMPABLE */, 4u /* PR_SET_DUMPABLE */, 0x53564d41u /* PR_SET_VMA */}) {
    filter.allowIf("prctl", is(0, option));
  }
  filter.allowIf("execve", is(0, reinterpret_cast<uint64_t>(program)));
  allowSockets(filter, found->sockets);
  allowIoctls(filter, found->ioctls);
  if (found->threads) {
    // Threads, and no processes. What the newer call is asked to do is in memory, where no filter
    // looks; without it the C library takes the other one.
    filter.allowIf("clone", SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
    filter.refuse("clone3", ENOSYS);
  }
  filter.load();
}

}  // namespace talos::confine
