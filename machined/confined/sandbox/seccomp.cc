#include "machined/confined/sandbox/seccomp.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <errno.h>
#include <kj/debug.h>
#include <linux/blkzoned.h>
#include <linux/cdrom.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <scsi/sg.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <array>

#include "common/base/error.h"
#include "common/kernel/refused-calls.h"
#include "common/text/texts.h"

namespace talos::confine {
namespace {

// An architecture may have some of these calls only under their newer names (arm64: openat for
// open, ppoll for poll), so both are listed; libseccomp leaves out calls that the architecture
// lacks.

// Calls that every program may make, and the parser no others: memory, the clock, open descriptors.
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

// Further calls of a program that connects to others. Landlock limits the files.
constexpr const char* kClient[] = {
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
    // files; Landlock decides which
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
    "fadvise64",
    // sockets; their families are limited below
    "socketpair",
    "connect",
    "setsockopt",
    "sendmmsg",
    "recvmmsg",
};

// Further calls of a server: files that change, connections that come.
constexpr const char* kServer[] = {
    "memfd_create",
    "sendfile",
    "splice",
    "copy_file_range",
    "inotify_init1",
    "inotify_add_watch",
    "inotify_rm_watch",
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
    "fsync",
    "fdatasync",
    "flock",
    "chmod",
    "fchmod",
    "fchmodat",
    "utimensat",
    "listen",
    "accept",
    "accept4",
};

// Further calls of a parser that resolves names. Landlock limits the files.
constexpr const char* kResolver[] = {
    "open",    "openat",     "stat",     "lstat",    "newfstatat",
    "access",  "faccessat",  "lseek",    "select",   "pselect6",
    "connect", "setsockopt", "sendmmsg", "recvmmsg", "timerfd_gettime",
};

// Further calls of a parser that reads a disk by its descriptor, and looks up in sysfs which disk
// it is. Landlock limits the files.
constexpr const char* kProber[] = {
    "open",     "openat",     "stat",  "lstat",   "newfstatat", "statx",      "access", "faccessat",
    "readlink", "readlinkat", "lseek", "pread64", "fadvise64",  "getdents64", "uname",
};

// Calls beyond the server's: nodes of mappings, the kernel's keyring, priorities.
constexpr const char* kVolumes[] = {
    "mknod",      "mknodat",     "chown",       "lchown",      "fchown",
    "fchownat",   "add_key",     "keyctl",      "request_key", "mlockall",
    "munlockall", "getpriority", "setpriority", "sync",        "syncfs",
};

// Calls beyond the server's: programs that make file systems, file systems that are mounted
// nowhere, and fewer rights for each step (machined/disk/installer/confinement.h).
constexpr const char* kInstaller[] = {
    "fork",
    "vfork",
    "execve",
    "wait4",
    "waitid",
    "fsopen",
    "fsconfig",
    "fsmount",
    "openat2",
    "capset",
    "sync",
    "syncfs",
    "landlock_create_ruleset",
    "getpriority",
    "landlock_add_rule",
    "landlock_restrict_self",
};

// Further calls of a kernel helper: modules of one folder, and kernel parameters that it has open.
constexpr const char* kModuleCalls[] = {"open",       "openat",       "openat2",     "uname",
                                        "newfstatat", "finit_module", "setpriority", "pwrite64"};
constexpr const char* kRawIoCalls[] = {"open",  "openat",      "newfstatat",
                                       "uname", "setpriority", "pwrite64"};

// vipd must not act late on a decision: a timer ends it first (vipd/guarded-section.h).
constexpr const char* kVip[] = {"timer_create", "timer_settime", "timer_delete"};

constexpr const char* kListener[] = {"accept", "accept4"};
// The index of the flags argument: a listener must not make a connection with its first data
// (MSG_FASTOPEN), which Landlock does not see.
struct Sending {
  kj::StringPtr name;
  unsigned flags;
};
constexpr Sending kSending[] = {{"sendto"_kj, 3}, {"sendmsg"_kj, 2}, {"sendmmsg"_kj, 3}};

constexpr kj::StringPtr kForeign = "foreign"_kj, kBus = "bus"_kj;

// Calls that the brain makes and a foreign program may not: the brain starts programs, mounts,
// opens encrypted volumes (in the kernel's keyring), sets the clock and the host name, makes
// devices, uses partitions as swap, and makes another system the root.
constexpr kj::StringPtr kOfTheBrain[] = {
    "fork"_kj,          "vfork"_kj,       "mount"_kj,         "umount2"_kj,     "move_mount"_kj,
    "open_tree"_kj,     "fsopen"_kj,      "fsconfig"_kj,      "fsmount"_kj,     "fspick"_kj,
    "mount_setattr"_kj, "keyctl"_kj,      "add_key"_kj,       "request_key"_kj, "adjtimex"_kj,
    "clock_adjtime"_kj, "sethostname"_kj, "setdomainname"_kj, "mknod"_kj,       "mknodat"_kj,
    "swapon"_kj,        "swapoff"_kj,     "pivot_root"_kj};

enum class Sockets { kNone, kUnix, kInternet, kUnixToo, kNetwork, kVip };
enum class Ioctls { kOfFiles, kNetwork, kProber, kRawIo, kDevices };
enum class Children { kNone, kThreads, kForks, kPrograms };
struct Profile {
  kj::StringPtr name;
  Sockets sockets;
  Ioctls ioctls = Ioctls::kOfFiles;
  Children children = Children::kNone;
  // Calls besides those of every program.
  std::array<kj::ArrayPtr<const char* const>, 3> calls = {};
};
constexpr Profile kProfiles[] = {
    {.name = "server"_kj, .sockets = Sockets::kUnixToo, .calls = {kClient, kServer}},
    {.name = "listener"_kj, .sockets = Sockets::kUnix, .calls = {kClient, kListener}},
    {.name = "storage"_kj,
     .sockets = Sockets::kUnixToo,
     .children = Children::kThreads,
     .calls = {kClient, kServer}},
    {.name = "network"_kj,
     .sockets = Sockets::kNetwork,
     .ioctls = Ioctls::kNetwork,
     .calls = {kClient, kServer}},
    {.name = "vip"_kj, .sockets = Sockets::kVip, .calls = {kClient, kVip}},
    {.name = "parser"_kj, .sockets = Sockets::kNone},
    {.name = "prober"_kj, .sockets = Sockets::kNone, .ioctls = Ioctls::kProber, .calls = {kProber}},
    {.name = "resolver"_kj, .sockets = Sockets::kInternet, .calls = {kResolver}},
    {.name = "volumes"_kj,
     .sockets = Sockets::kNone,
     .ioctls = Ioctls::kDevices,
     .children = Children::kThreads,
     .calls = {kClient, kServer, kVolumes}},
    {.name = "installer"_kj,
     .sockets = Sockets::kNone,
     .ioctls = Ioctls::kDevices,
     .children = Children::kPrograms,
     .calls = {kClient, kServer, kInstaller}},
    {.name = "modules"_kj,
     .sockets = Sockets::kNone,
     .children = Children::kForks,
     .calls = {kModuleCalls}},
    {.name = "raw-io"_kj,
     .sockets = Sockets::kNone,
     .ioctls = Ioctls::kRawIo,
     .children = Children::kForks,
     .calls = {kRawIoCalls}}};

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
  void allowIf(const char* name, std::initializer_list<scmp_arg_cmp> conditions) {
    rule(SCMP_ACT_ALLOW, name, conditions);
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

// Compares the type without the flags that socket() takes with it.
scmp_arg_cmp isType(uint64_t type) {
  return {1, SCMP_CMP_MASKED_EQ, 0xf, type};
}

// Allows connections to machined, etcd and a provider, and queries of DNS servers for its name;
// addresses, routes and the sockets for them; announcements. A packet socket of protocol 0 receives
// nothing, unless it is bound: its address is longer than that of a netlink socket, and only those
// may be bound.
void allowSocketsOfVip(Filter& filter) {
  filter.allowIf("socket", {is(0, AF_UNIX), isType(SOCK_STREAM)});
  for (uint64_t family : {AF_INET, AF_INET6}) {
    filter.allowIf("socket", {is(0, family), isType(SOCK_STREAM)});
    for (uint64_t protocol : {uint64_t{0}, uint64_t{IPPROTO_UDP}}) {
      filter.allowIf("socket", {is(0, family), isType(SOCK_DGRAM), is(2, protocol)});
    }
  }
  for (uint64_t protocol : {NETLINK_ROUTE, NETLINK_SOCK_DIAG}) {
    filter.allowIf("socket", {is(0, AF_NETLINK), is(2, protocol)});
  }
  filter.allowIf("socket", {is(0, AF_PACKET), isType(SOCK_DGRAM), is(2, 0)});
  filter.allowIf("socket", {is(0, AF_INET6), isType(SOCK_RAW), is(2, IPPROTO_ICMPV6)});
  filter.allowIf("bind", {is(2, sizeof(sockaddr_nl))});
}

void allowSockets(Filter& filter, Sockets which) {
  if (which == Sockets::kNone) return;
  if (which == Sockets::kVip) return allowSocketsOfVip(filter);
  if (which == Sockets::kUnix) return filter.allowIf("socket", {is(0, AF_UNIX)});
  filter.allow("bind");
  auto allow = [&](std::initializer_list<int> families) {
    for (int family : families) {
      filter.allowIf("socket", {is(0, static_cast<uint64_t>(family))});
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
    filter.allowIf("ioctl", {is(1, request)});
  }
  // Allows all of 0x89xx: interfaces, addresses, bonds, bridges, ethtool.
  if (which == Ioctls::kNetwork)
    filter.allowIf("ioctl", {SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffff00u, 0x8900u)});
  if (which == Ioctls::kRawIo) filter.allowIf("ioctl", {is(1, SG_IO)});
  if (which == Ioctls::kProber) {
    for (uint64_t request : {uint64_t{BLKGETSIZE64}, uint64_t{BLKSSZGET}, uint64_t{BLKPBSZGET},
                             uint64_t{BLKGETZONESZ}, uint64_t{CDROM_GET_CAPABILITY}}) {
      filter.allowIf("ioctl", {is(1, request)});
    }
  }
}

void allowCall(Filter& filter, Sockets sockets, const char* name) {
  for (auto& sending : kSending) {
    if (sockets != Sockets::kUnix || sending.name != name) continue;
    return filter.allowIf(name, {{sending.flags, SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0}});
  }
  filter.allow(name);
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
  // A program must not type input into a terminal.
  for (uint64_t request : {TIOCSTI, TIOCLINUX}) filter.refuseIf("ioctl", is(1, request));
  filter.refuseIf("prlimit64", {0, SCMP_CMP_NE, 0, 0});  // the limits of others
  filter.load();
}

void allowChildren(Filter& filter, Children which) {
  if (which == Children::kNone) return;
  if (which == Children::kThreads) {
    filter.allowIf("clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)});
  } else {
    constexpr uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    filter.allowIf("clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, kNamespaces, 0)});
    // Started programs set this to be killed together with the process that started them.
    if (which == Children::kPrograms) {
      filter.allowIf("prctl", {is(0, PR_SET_PDEATHSIG), is(1, SIGKILL)});
    }
  }
  // The arguments of clone3 are in memory, where no filter looks; without clone3 the C library uses
  // clone.
  filter.refuse("clone3", ENOSYS);
}

}  // namespace

void installBrainFilter() {
  Filter filter(SCMP_ACT_ALLOW);
  for (auto* name : kRefusedCalls) {
    if (!contains(kOfTheBrain, name)) filter.refuse(name, EPERM);
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
  for (auto* name : kAlways) allowCall(filter, found->sockets, name);
  for (auto& list : found->calls) {
    for (auto* name : list) allowCall(filter, found->sockets, name);
  }
  filter.allowIf("prlimit64", {is(0, 0)});  // its own limits
  // The names of threads and of memory; not the capability and mode calls.
  for (unsigned option :
       {15u /* PR_SET_NAME */, 16u /* PR_GET_NAME */, 38u /* PR_SET_NO_NEW_PRIVS */,
        3u /* PR_GET_DUMPABLE */, 4u /* PR_SET_DUMPABLE */, 0x53564d41u /* PR_SET_VMA */}) {
    filter.allowIf("prctl", {is(0, option)});
  }
  if (program != nullptr && found->children != Children::kPrograms) {
    filter.allowIf("execve", {is(0, reinterpret_cast<uint64_t>(program))});
  }
  allowSockets(filter, found->sockets);
  allowIoctls(filter, found->ioctls);
  allowChildren(filter, found->children);
  filter.load();
}

}  // namespace talos::confine
