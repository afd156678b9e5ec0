// The confinement of every daemon and of the parser on the kernel of the image: a program started
// by the exec wrapper with the same arguments tries forbidden actions. A host may lack Landlock; a
// node must not.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>

#include "common/base/file.h"
#include "machined/brain/daemon-table.h"
#include "machined/confined/parser-client/confined-process.h"

namespace talos {
namespace {

// The socket that the confined program reports on: lines NAME=ERRNO and a dot.
constexpr int kProbeFd = 3;
// The environment variable that has the PID of a process of the same user.
constexpr const char* kSibling = "SIBLING";
constexpr const char* kForeignFile = "/foreign";  // that its mode gives to everybody

struct Report {
  std::string text;
  void tell(const char* what, long result) {
    text += kj::str(what, "=", result < 0 ? errno : 0, "\n").cStr();
  }
};

void trySockets(Report& report) {
  struct {
    const char* name;
    int family;
  } families[] = {{"unix", AF_UNIX},       {"inet", AF_INET},   {"inet6", AF_INET6},
                  {"netlink", AF_NETLINK}, {"vsock", AF_VSOCK}, {"alg", AF_ALG},
                  {"key", AF_KEY}};
  for (auto& f : families) report.tell(f.name, socket(f.family, SOCK_DGRAM, 0));
}

// Tries a port without a server: the kernel's network refuses it, unless Landlock does before.
void tryTcp(Report& report) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(1);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  report.tell("connect", connect(fd, reinterpret_cast<struct sockaddr*>(&to), sizeof to));
}

// A process of the same user, which only Landlock keeps apart.
void trySibling(Report& report) {
  auto* text = getenv(kSibling);
  pid_t sibling = text == nullptr ? -1 : atoi(text);
  char byte;
  struct iovec target = {&byte, 1};
  report.tell("sibling-kill", kill(sibling, 0));
  report.tell("sibling-ptrace", ptrace(PTRACE_ATTACH, sibling, nullptr, nullptr));
  report.tell("sibling-memory", process_vm_readv(sibling, &target, 1, &target, 1, 0));
}

// Ways out of any confinement, or into the kernel.
void tryTheKernel(Report& report) {
  char* argv[] = {const_cast<char*>("/other"), nullptr};
  report.tell("exec", execv("/usr/libexec/talos/confine", argv));
  report.tell("setuid", setuid(0));
  report.tell("chroot", chroot("/tmp"));
  report.tell("umount", umount2("/proc", MNT_DETACH));
  report.tell("unshare", unshare(CLONE_NEWUSER));
  report.tell("bpf", syscall(SYS_bpf, 0, nullptr, 0));
  report.tell("uring", syscall(SYS_io_uring_setup, 1, nullptr));
  report.tell("keyctl", syscall(SYS_keyctl, 0, 0, 0, 0, 0));
  report.tell("perf", syscall(SYS_perf_event_open, nullptr, 0, 0, -1, 0));
  report.tell("module", syscall(SYS_init_module, nullptr, 0, ""));
  report.tell("reboot", syscall(SYS_reboot, 0, 0, 0, nullptr));
  report.tell("clock", syscall(SYS_clock_settime, 0, nullptr));
}

void tryOthers(Report& report) {
  constexpr pid_t kOther = 1;  // root's
  char byte;
  struct iovec target = {&byte, 1};
  report.tell("kill", kill(kOther, 0));
  report.tell("ptrace", ptrace(PTRACE_ATTACH, kOther, nullptr, nullptr));
  report.tell("memory", process_vm_readv(kOther, &target, 1, &target, 1, 0));
  report.tell("mem", open("/proc/1/mem", O_RDONLY | O_CLOEXEC));
  report.tell("environ", open("/proc/1/environ", O_RDONLY | O_CLOEXEC));
  report.tell("maps", open("/proc/1/maps", O_RDONLY | O_CLOEXEC));
  report.tell("own-maps", open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  report.tell("own-mem", open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
}

// Then it waits, so that the test can look at it.
int tryEverything() {
  Report report;
  report.tell("read", open(kForeignFile, O_RDONLY | O_CLOEXEC));
  report.tell("write", open(kForeignFile, O_WRONLY | O_CLOEXEC));
  report.tell("create", open("/tmp/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  trySockets(report);
  tryTcp(report);
  tryOthers(report);
  trySibling(report);
  tryTheKernel(report);
  report.tell("mount", mount("none", "/tmp", "tmpfs", 0, nullptr));
  pid_t child = fork();
  if (child == 0) _exit(0);
  report.tell("fork", child);
  report.text += ".";
  if (write(kProbeFd, report.text.data(), report.text.size()) < 0) return 1;
  char end;
  return static_cast<int>(read(kProbeFd, &end, 1));
}

// Turns this program into the probe if the exec wrapper has started it under another name: before
// main() and before gtest's first actions, which a parser may not take.
__attribute__((constructor(101))) void becomeProbe(int, char** argv, char**) {
  if (strcmp(argv[0], "/probe") == 0) _exit(tryEverything());
}

using machined::confined;
using machined::Daemon;

struct Outcome {
  std::map<std::string, int> errors;
  std::string status;

  int of(const char* what) const {
    auto found = errors.find(what);
    return found == errors.end() ? -1 : found->second;
  }
  bool has(const std::string& line) const { return status.find(line) != std::string::npos; }
};

// A process of this user that does nothing.
class Sibling {
 public:
  explicit Sibling(unsigned uid) {
    KJ_SYSCALL(pid = fork());
    if (pid != 0) return;
    // A process that changed its user cannot be traced by this user, unless it is dumpable.
    if (setgid(uid) == 0 && setuid(uid) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0) {
      for (;;) pause();
    }
    _exit(1);
  }
  ~Sibling() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Sibling);
  pid_t pid;
};

// Runs the probe through the wrapper.
Outcome runProbe(kj::ArrayPtr<const kj::String> command, unsigned uid) {
  Sibling sibling(uid);
  setenv(kSibling, kj::str(sibling.pid).cStr(), 1);
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  kj::AutoCloseFd ours(ends[0]), theirs(ends[1]);
  auto argv = kj::heapArrayBuilder<char*>(command.size() + 1);
  for (auto& word : command) argv.add(const_cast<char*>(word.cStr()));
  argv.add(nullptr);
  pid_t pid = fork();
  if (pid == 0) {
    if (theirs.get() == kProbeFd)
      fcntl(kProbeFd, F_SETFD, 0);
    else
      dup2(theirs, kProbeFd);
    execv(argv[0], argv.begin());
    _exit(127);
  }
  theirs = nullptr;
  std::string text;
  char buffer[4096];
  alarm(60);
  while (text.empty() || text.back() != '.') {
    auto size = read(ours, buffer, sizeof(buffer));
    if (size <= 0) break;
    text.append(buffer, static_cast<size_t>(size));
  }
  alarm(0);
  Outcome outcome;
  outcome.status = tryReadFile(kj::str("/proc/", pid, "/status")).orDefault(kj::str()).cStr();
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    auto equals = text.find('=', at);
    outcome.errors[text.substr(at, equals - at)] = atoi(text.c_str() + equals + 1);
  }
  ours = nullptr;
  int ended;
  waitpid(pid, &ended, 0);
  EXPECT_EQ(ended, 0) << text;
  return outcome;
}

// Returns the command without the filter of system calls: then Landlock and the uid alone refuse.
kj::Vector<kj::String> withoutFilter(kj::ArrayPtr<const kj::String> command) {
  kj::Vector<kj::String> rest;
  for (auto& word : command) {
    if (!word.startsWith("--seccomp=")) rest.add(kj::str(word));
  }
  return rest;
}

void prepare() {
  for (auto folder : {"/run/talos/networkd", "/system/etc", "/system/imagecache",
                      "/etc/kubernetes/pki/etcd", "/etc/ssl/certs", "/etc/dbus-1"}) {
    makeDirectories(kj::heapString(folder), 0755);
  }
  kj::AutoCloseFd names(open("/etc/passwd", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  chmod("/tmp", 01777);
  kj::AutoCloseFd file(open(kForeignFile, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  KJ_SYSCALL(fchmod(file, 0666));
}

void expectConfined(const Outcome& outcome, unsigned uid, std::initializer_list<const char*> open) {
  auto id = std::to_string(uid);
  EXPECT_TRUE(outcome.has("Uid:\t" + id + "\t" + id + "\t" + id + "\t" + id)) << outcome.status;
  EXPECT_TRUE(outcome.has("NoNewPrivs:\t1")) << outcome.status;
  EXPECT_TRUE(outcome.has("Seccomp:\t2")) << outcome.status;
  for (auto denied :
       {"kill",   "ptrace", "memory",  "mount",        "fork",           "vsock",
        "alg",    "key",    "setuid",  "sibling-kill", "sibling-ptrace", "sibling-memory",
        "chroot", "umount", "unshare", "bpf",          "uring",          "keyctl",
        "perf",   "module", "reboot",  "clock"}) {
    EXPECT_EQ(outcome.of(denied), EPERM) << denied;
  }
  for (auto denied : {"read", "write", "create", "mem", "environ", "maps", "exec"}) {
    EXPECT_TRUE(outcome.of(denied) == EACCES || outcome.of(denied) == EPERM) << denied;
  }
  for (auto family : {"unix", "inet", "inet6", "netlink"}) {
    bool has = false;
    for (auto o : open) has = has || strcmp(o, family) == 0;
    EXPECT_EQ(outcome.of(family), has ? 0 : EPERM) << family;
  }
}

// Checks a program that is not ours: it may do most, but no action that attacks the node or its
// kernel.
void expectForeign(const Outcome& outcome, unsigned uid) {
  auto id = std::to_string(uid);
  EXPECT_TRUE(outcome.has("Uid:\t" + id + "\t" + id + "\t" + id + "\t" + id)) << outcome.status;
  EXPECT_TRUE(outcome.has("NoNewPrivs:\t1")) << outcome.status;
  EXPECT_TRUE(outcome.has("Seccomp:\t2")) << outcome.status;
  for (auto denied :
       {"kill",    "ptrace", "memory",       "mount",          "fork",           "vsock",  "alg",
        "key",     "setuid", "sibling-kill", "sibling-ptrace", "sibling-memory", "chroot", "umount",
        "unshare", "bpf",    "uring",        "keyctl",         "perf",           "module", "reboot",
        "clock",   "unix"}) {
    EXPECT_EQ(outcome.of(denied), EPERM) << denied;
  }
  for (auto denied : {"read", "write", "create", "mem", "environ", "maps", "exec"}) {
    EXPECT_TRUE(outcome.of(denied) == EACCES || outcome.of(denied) == EPERM) << denied;
  }
  for (auto family : {"inet", "inet6", "netlink"}) EXPECT_EQ(outcome.of(family), 0) << family;
}

// Checks a probe without the filter, so that Landlock, file modes and its user alone limit it.
void expectLandlock(const Outcome& outcome) {
  EXPECT_TRUE(outcome.has("Seccomp:\t0")) << outcome.status;
  for (auto denied : {"read", "write", "create", "mem", "environ", "maps", "exec"}) {
    EXPECT_EQ(outcome.of(denied), EACCES) << denied;
  }
  for (auto denied : {"kill", "ptrace", "memory", "mount", "sibling-kill", "sibling-ptrace",
                      "sibling-memory", "setuid", "chroot", "umount", "module", "reboot"}) {
    EXPECT_EQ(outcome.of(denied), EPERM) << denied;
  }
}

// Catches: a kernel of the image without Landlock, where the wrapper only warns.
TEST(Confinement, TheKernelHasLandlock) {
  long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  EXPECT_GE(version, 6) << "signals are restricted from version 6 on";
}

// Catches: a daemon whose row permits an action that endangers its neighbours' secrets.
TEST(Confinement, OfEveryDaemon) {
  prepare();
  for (auto& daemon : machined::daemons()) {
    SCOPED_TRACE(daemon.id.cStr());
    if (daemon.command.size() > 0) {  // not ours; each that is not confined stands here
      EXPECT_EQ(daemon.id, "cri"_kj);
      continue;
    }
    if (daemon.container !=
        nullptr) {  // its runtime confines it, or it has the rights of the machine
      EXPECT_TRUE(daemon.id == "etcd" || daemon.id == "kubelet");
      continue;
    }
    for (auto path : {daemon.state, daemon.writes}) {  // as they are on a node before it starts
      if (path == nullptr || path == "/dev/null" || path.startsWith("/proc/")) continue;
      makeDirectories(path, 0700);
      KJ_SYSCALL(chown(path.cStr(), daemon.uid, daemon.uid), path);
    }
    auto command = confined(daemon, "/probe");
    if (daemon.filter == "foreign") {
      expectForeign(runProbe(command, daemon.uid), daemon.uid);
    } else if (daemon.filter == "bus" || daemon.filter == "listener") {
      expectConfined(runProbe(command, daemon.uid), daemon.uid, {"unix"});
    } else if (daemon.filter == "network") {
      expectConfined(runProbe(command, daemon.uid), daemon.uid,
                     {"unix", "inet", "inet6", "netlink"});
    } else if (daemon.filter == "vip") {  // of Unix it has streams only; it resolves names by UDP
      expectConfined(runProbe(command, daemon.uid), daemon.uid, {"inet", "inet6", "netlink"});
    } else {
      expectConfined(runProbe(command, daemon.uid), daemon.uid, {"unix", "inet", "inet6"});
    }
    auto outcome = runProbe(withoutFilter(command), daemon.uid);
    expectLandlock(outcome);
    // trustd has the CA's key, and connects nowhere. The others find no server, or no network.
    EXPECT_EQ(outcome.of("connect") == EACCES, daemon.filter == "listener")
        << outcome.of("connect");
    // Our programs read their own maps for a crash report, and no other file of their process.
    EXPECT_EQ(outcome.of("own-maps"), machined::isOurs(daemon) ? 0 : EACCES);
    EXPECT_EQ(outcome.of("own-mem"), EACCES);
  }
}

// Catches: the same of the process that parses foreign bytes.
TEST(Confinement, OfTheParser) {
  prepare();
  auto command =
      machined::parserCommand({.confine = kConfine, .parse = "/probe"}, 10 * kj::SECONDS);
  expectConfined(runProbe(command, kParserUid), kParserUid, {});
  expectLandlock(runProbe(withoutFilter(command), kParserUid));
}

// Catches: a process that reads a disk and can do more than identify it.
TEST(Confinement, OfTheProber) {
  prepare();
  auto command = machined::parserCommand({.confine = kConfine, .parse = "/probe"}, 10 * kj::SECONDS,
                                         machined::ParserRights::kDisk);
  expectConfined(runProbe(command, kParserUid), kParserUid, {});
  expectLandlock(runProbe(withoutFilter(command), kParserUid));
}

// Catches: a resolver process that can do more than resolve names.
TEST(Confinement, OfTheResolver) {
  prepare();
  auto command = machined::parserCommand({.confine = kConfine, .parse = "/probe"}, 10 * kj::SECONDS,
                                         machined::ParserRights::kNames);
  expectConfined(runProbe(command, kParserUid), kParserUid, {"inet", "inet6"});
  expectLandlock(runProbe(withoutFilter(command), kParserUid));
}

}  // namespace
}  // namespace talos
