// Runs this very program by the wrapper and lets it try the calls that must fail. Needs root.
#include "machined/confined/sandbox/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/net.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <map>
#include <string>
#include <thread>

#include "common/testing/provided.h"
#include "common/testing/sanitizers.h"
#include "machined/confined/sandbox/landlock.h"

namespace talos::confine {
namespace {

void print(const char* what, long result) {
  printf("%s=%d\n", what, result < 0 ? errno : 0);
  fflush(stdout);
}

void printOpen(const char* what, const std::string& path, int flags) {
  int fd = open(path.c_str(), flags | O_CLOEXEC, 0600);
  print(what, fd);
  if (fd >= 0) close(fd);
}

int runThread() {
  int value = 0;
  try {
    std::thread([&] { value = 1; }).join();
  } catch (...) {
    return -1;
  }
  return value == 1 ? 0 : -1;
}

long forkAndEnd() {
  pid_t pid = fork();
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid(pid, nullptr, 0);
  return pid;
}

long cloneAndEnd(unsigned long flags) {
  long pid = syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid(static_cast<pid_t>(pid), nullptr, 0);
  return pid;
}

// Probes the sockets of vipd, and the calls that must fail on its packet socket.
void probeOfVip() {
  int packet = socket(AF_PACKET, SOCK_DGRAM, 0);
  print("announce", packet);
  struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
  print("overhear", bind(packet, reinterpret_cast<sockaddr*>(&all), sizeof all));
  print("overhear-at-once", socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL)));
  int routes = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  print("routes", routes);
  struct sockaddr_nl own = {.nl_family = AF_NETLINK};
  print("routes-bind", bind(routes, reinterpret_cast<sockaddr*>(&own), sizeof own));
  print("sockets", socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG));
  print("firewall", socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER));
  print("advertise", socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
  print("raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
  int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
  print("udp", datagrams);
  print("ping", socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
  struct sockaddr_in any = {.sin_family = AF_INET};
  print("udp-bind", bind(datagrams, reinterpret_cast<sockaddr*>(&any), sizeof any));
  print("listen", listen(socket(AF_INET, SOCK_STREAM, 0), 1));
}

// Descriptors that a server is started with, if any: a listening socket with a waiting client, and
// another one that listens elsewhere.
constexpr int kGiven = 40, kElsewhere = 41;

// Probes a server that serves, and then tries to connect out with its socket.
void probeGiven() {
  int client = accept4(kGiven, nullptr, nullptr, SOCK_CLOEXEC);
  print("accept", client);
  if (client < 0) return;
  print("send", send(client, "x", 1, MSG_NOSIGNAL));
  struct sockaddr_in to = {};
  socklen_t length = sizeof to;
  getsockname(kElsewhere, reinterpret_cast<struct sockaddr*>(&to), &length);
  auto* address = reinterpret_cast<struct sockaddr*>(&to);
  shutdown(kGiven, SHUT_RDWR);
  struct iovec text = {const_cast<char*>("x"), 1};
  struct msghdr message = {};
  message.msg_name = address;
  message.msg_namelen = length;
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  constexpr int kFast = MSG_FASTOPEN | MSG_NOSIGNAL | MSG_DONTWAIT;
  print("fast-sendto", sendto(kGiven, "x", 1, kFast, address, length));
  print("fast-sendmsg", sendmsg(kGiven, &message, kFast));
  print("given-connect", connect(kGiven, address, length));
  print("given-bind", bind(kGiven, address, length));
  print("given-listen", listen(kGiven, 1));
}

// Runs in the confined process: tries everything and prints NAME=ERRNO. `directory` has read/,
// write/ and other.
void probe(const std::string& directory) {
  probeGiven();
  print("unix", socket(AF_UNIX, SOCK_STREAM, 0));
  print("inet", socket(AF_INET, SOCK_STREAM, 0));
  print("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
  print("packet", socket(AF_PACKET, SOCK_RAW, 0));
  probeOfVip();
  print("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
  print("thread", runThread());
  print("fork", forkAndEnd());
  char* argv[] = {const_cast<char*>("/no/such/program"), nullptr};  // ENOENT if execve was allowed
  print("exec", execve(argv[0], argv, argv + 1));
  print("mount", mount("none", "/", "tmpfs", 0, nullptr));
  print("unshare", unshare(CLONE_NEWNS));
  print("ptrace", ptrace(PTRACE_TRACEME, 0, nullptr, nullptr));
  print("bpf", syscall(SYS_bpf, 0, nullptr, 0));
  print("module", syscall(SYS_init_module, nullptr, 0, ""));
  print("keyctl", syscall(SYS_keyctl, 0, 0, 0, 0, 0));
  print("reboot", syscall(SYS_reboot, 0, 0, 0, nullptr));
  print("io_uring", syscall(SYS_io_uring_setup, 1, nullptr));
  print("syslog", syscall(SYS_syslog, 10, nullptr, 0));
  print("quota", syscall(SYS_quotactl_fd, -1, 0, 0, nullptr));
  print("fanotify", syscall(SYS_fanotify_init, 0x200, 0));  // needs no capability
  print("handle", syscall(SYS_name_to_handle_at, -1, "", nullptr, nullptr, 0));
#ifdef SYS_modify_ldt
  print("ldt", syscall(SYS_modify_ldt, 0, nullptr, 0));
#endif
  print("personality", syscall(SYS_personality, 0xffffffff));
  print("settime", syscall(SYS_settimeofday, nullptr, nullptr));
  print("setuid", syscall(SYS_setuid, 0));
  struct rlimit limit;
  print("limits", prlimit(0, RLIMIT_NOFILE, nullptr, &limit));
  // By its own number: the result also holds for every other process of its user.
  print("limits-of-other", prlimit(getpid(), RLIMIT_NOFILE, nullptr, &limit));
  print("tiocsti", ioctl(0, TIOCSTI, "x"));
  printOpen("read-read", directory + "/read/file", O_RDONLY);
  printOpen("read-write", directory + "/read/file", O_WRONLY);
  printOpen("write-new", directory + "/write/new", O_WRONLY | O_CREAT);
  printOpen("list", directory, O_RDONLY | O_DIRECTORY);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  print("device-open", null);
  print("device-size", ioctl(null, BLKGETSIZE64, &null));
  print("device-wipe", ioctl(null, BLKZEROOUT, nullptr));
  print("remove", unlink((directory + "/nothing").c_str()));
  print("detached-mount", syscall(SYS_fsopen, "no such file system", 0));
  print("namespaces", cloneAndEnd(CLONE_NEWUTS));
  print("orphan", prctl(PR_SET_PDEATHSIG, 0));
  timer_t timer;
  print("timer", timer_create(CLOCK_MONOTONIC, nullptr, &timer));
  print("device-ioctl", ioctl(null, BLKGETSIZE64, &null) < 0 && errno == ENOTTY ? 0 : -1);
  print("make-block", mknod((directory + "/write/block").c_str(), S_IFBLK | 0600, makedev(7, 200)));
  printOpen("other", directory + "/other", O_RDONLY);
  struct ifreq_name {
    char name[16];
    char rest[64];
  } request = {"lo", {}};
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  print("siocgifflags", ioctl(s, 0x8913 /* SIOCGIFFLAGS */, &request));
  FILE* f = fopen("/proc/self/status", "re");
  char line[256];
  while (f != nullptr && fgets(line, sizeof(line), f) != nullptr) fputs(line, stdout);
  fflush(stdout);
}

// Runs before main(), and before GoogleTest's own constructors, which make calls that a profile
// refuses: if the wrapper started this program, it is the probe.
__attribute__((constructor(101))) void becomeProbe(int argc, char** argv, char**) {
  if (argc == 3 && strcmp(argv[1], "--probe") == 0) {
    probe(argv[2]);
    _exit(0);
  }
}

class Confined : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(0u, getuid()) << "these tests need root";
    char name[] = "/tmp/talos-confine-test-XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(name));
    directory = name;
    chmod(name, 0755);
    for (auto* d : {"/read", "/write"}) {
      mkdir((directory + d).c_str(), 0777);
      chmod((directory + d).c_str(), 0777);
    }
    for (auto* path : {"/read/file", "/other"}) {
      int fd = open((directory + path).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
      fchmod(fd, 0666);
      close(fd);
    }
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    self = std::string(path, static_cast<size_t>(n));
  }
  void TearDown() override {
    for (auto* path :
         {"/read/file", "/other", "/write/new", "/write/block", "/read", "/write", ""}) {
      remove((directory + path).c_str());
    }
  }

  // Runs the probe with these options; fills `results` and `status`.
  void run(std::initializer_list<std::string> more) {
    kj::Vector<kj::String> texts;
    for (auto& m : more) texts.add(kj::str(m.c_str()));
    for (auto* t : {"--", self.c_str(), "--probe", directory.c_str()}) texts.add(kj::str(t));
    auto arguments = KJ_MAP(t, texts)->kj::StringPtr {
      return t;
    };
    auto options = parse(arguments);
    int ends[2];
    ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
    pid_t pid = fork();
    if (pid == 0) {
      dup2(ends[1], 1);
      for (int fd : {kGiven, kElsewhere}) {
        if (given[fd - kGiven] >= 0) dup2(given[fd - kGiven], fd);
      }
      try {
        confine::run(options);
      } catch (const kj::Exception& e) {
        fprintf(stderr, "%s\n", e.getDescription().cStr());
      }
      _exit(126);
    }
    close(ends[1]);
    FILE* f = fdopen(ends[0], "r");
    char line[512];
    while (fgets(line, sizeof(line), f) != nullptr) {
      std::string text(line, strcspn(line, "\n"));
      if (auto equals = text.find('='); equals != std::string::npos) {
        results[text.substr(0, equals)] = atoi(text.c_str() + equals + 1);
      } else if (auto colon = text.find(":\t"); colon != std::string::npos) {
        status[text.substr(0, colon)] = text.substr(colon + 2);
      }
    }
    fclose(f);
    int ended;
    waitpid(pid, &ended, 0);
    ASSERT_EQ(0, ended);
  }
  int result(const std::string& name) {
    EXPECT_EQ(1u, results.count(name)) << name << " was not tried";
    return results[name];
  }

  int given[2] = {-1, -1};  // kGiven, kElsewhere
  std::string directory, self;
  std::map<std::string, int> results;
  std::map<std::string, std::string> status;
};

constexpr uint64_t kNetAdminAndRaw = 1ull << CAP_NET_ADMIN | 1ull << CAP_NET_RAW;

// Catches: an identity, group or capability that stays, or one that is lost on the way through
// exec.
TEST_F(Confined, IdentityAndCapabilities) {
  run({"--uid=52", "--capabilities=net_admin,net_raw", "--rlimit=nofile=777", "--oom-score=500"});
  EXPECT_EQ("52\t52\t52\t52", status["Uid"]);
  EXPECT_EQ("52\t52\t52\t52", status["Gid"]);
  EXPECT_EQ(" ", status["Groups"].empty() ? " " : status["Groups"]);
  for (auto* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    EXPECT_EQ(kNetAdminAndRaw, strtoull(status[set].c_str(), nullptr, 16)) << set;
  }
  EXPECT_EQ("1", status["NoNewPrivs"]);
  EXPECT_EQ("0", status["Seccomp"]);
  EXPECT_EQ(EPERM, result("setuid"));
}

// Catches: a container in which no service starts, since it may have neither such a score nor so
// many files.
TEST_F(Confined, ScoresAndLimitsAreBestEffort) {
  run({"--uid=50", "--oom-score=-998", "--rlimit=nofile=4294967295"});
  EXPECT_EQ("50\t50\t50\t50", status["Uid"]);
}

TEST_F(Confined, NoCapabilities) {
  run({"--uid=50"});
  for (auto* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    EXPECT_EQ(0u, strtoull(status[set].c_str(), nullptr, 16)) << set;
  }
  EXPECT_EQ(EPERM, result("packet"));
}

// Catches: a profile that allows calls that a server never needs, or lacks some that it needs:
// threads, for a server that waits for the disk.
TEST_F(Confined, ServerProfiles) {
  for (auto* profile : {"server", "storage"}) {
    SCOPED_TRACE(profile);
    run({"--uid=50", std::string("--seccomp=") + profile});
    EXPECT_EQ("2", status["Seccomp"]);
    for (auto* good : {"unix", "inet", "read-read", "write-new"}) {
      EXPECT_EQ(0, result(good)) << good;
    }
    EXPECT_EQ(profile == std::string("storage") ? 0 : EPERM, result("thread"));
    for (auto* denied : {"netlink", "packet", "vsock", "fork", "exec", "mount", "unshare", "ptrace",
                         "bpf", "module", "keyctl", "reboot", "io_uring", "settime", "setuid",
                         "tiocsti", "siocgifflags"}) {
      EXPECT_EQ(EPERM, result(denied)) << denied;
    }
  }
}

// Returns a socket that listens on loopback.
kj::AutoCloseFd listening(struct sockaddr_in& at) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  kj::AutoCloseFd owned(fd);
  at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  auto* name = reinterpret_cast<struct sockaddr*>(&at);
  EXPECT_EQ(0, bind(fd, name, length));
  EXPECT_EQ(0, listen(fd, 4));
  EXPECT_EQ(0, getsockname(fd, name, &length));
  return owned;
}

// Catches: a server with the keys of the cluster that can carry them out of the node, by a new
// socket, or by the given one, shut down and connected again; a server that can neither serve with
// the given socket nor reach machined.
TEST_F(Confined, ListenerProfile) {
  struct sockaddr_in at, elsewhere;
  auto server = listening(at), other = listening(elsewhere);
  given[0] = server;
  given[1] = other;
  auto waits = [&] {
    kj::AutoCloseFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(0, connect(client, reinterpret_cast<struct sockaddr*>(&at), sizeof at));
    return client;
  };
  auto client = waits();
  run({"--uid=51", "--seccomp=listener"});
  EXPECT_EQ("2", status["Seccomp"]);
  for (auto* good : {"accept", "send", "unix", "read-read", "write-new"}) {
    EXPECT_EQ(0, result(good)) << good;
  }
  for (auto* denied :
       {"remove",  "fast-sendto", "fast-sendmsg", "given-bind", "given-listen", "inet",
        "netlink", "packet",      "vsock",        "thread",     "fork",         "exec",
        "mount",   "unshare",     "ptrace",       "bpf",        "module",       "keyctl",
        "reboot",  "io_uring",    "settime",      "setuid",     "tiocsti"}) {
    EXPECT_EQ(EPERM, result(denied)) << denied;
  }
  EXPECT_TRUE(result("given-connect") == 0 || result("given-connect") == EINVAL);  // Linux 6.18
  if (kAddressSanitizer) GTEST_SKIP() << "the rest is Landlock's, as below";
  TALOS_NEEDS(Landlock::version() >= 4, "landlock-6", "this kernel's Landlock restricts no ports");
  server = listening(at);
  given[0] = server;
  client = waits();
  run({"--uid=51", "--seccomp=listener", "--landlock-tcp=none",
       "--landlock-read=" + directory + "/read", "--landlock-read=/proc"});
  for (auto* good : {"accept", "send", "unix"}) EXPECT_EQ(0, result(good)) << good;
  EXPECT_EQ(EACCES, result("given-connect"));
}

// Catches: a resolver that can reach the daemons of the node, or has other rights that a parser
// lacks.
TEST_F(Confined, ResolverProfile) {
  if (kSanitized) GTEST_SKIP() << "it may not map the libraries that this program has then";
  run({"--uid=53", "--seccomp=resolver"});
  EXPECT_EQ("2", status["Seccomp"]);
  for (auto* good : {"inet", "read-read"}) EXPECT_EQ(0, result(good)) << good;
  for (auto* denied : {"unix", "netlink", "packet", "vsock", "thread", "fork", "exec", "mount",
                       "unshare", "ptrace", "bpf", "module", "keyctl", "reboot", "io_uring",
                       "settime", "setuid", "tiocsti", "siocgifflags"}) {
    EXPECT_EQ(EPERM, result(denied)) << denied;
  }
}

TEST_F(Confined, NetworkProfile) {
  run({"--uid=52", "--capabilities=net_admin,net_raw", "--seccomp=network"});
  for (auto* good : {"unix", "inet", "netlink", "packet", "siocgifflags"}) {
    EXPECT_EQ(0, result(good)) << good;
  }
  for (auto* denied : {"vsock", "thread", "fork", "exec", "mount", "unshare", "ptrace", "bpf",
                       "module", "reboot", "io_uring", "settime", "setuid", "tiocsti"}) {
    EXPECT_EQ(EPERM, result(denied)) << denied;
  }
}

// Catches: a program that moves addresses and can also receive others' packets, change the firewall
// or files, or accept connections; a program without the timer that ends it.
TEST_F(Confined, VipProfile) {
  run({"--uid=54", "--capabilities=net_admin,net_raw", "--seccomp=vip"});
  EXPECT_EQ("2", status["Seccomp"]);
  for (auto* good : {"unix", "inet", "udp", "announce", "routes", "routes-bind", "sockets",
                     "advertise", "timer", "read-read", "limits"}) {
    EXPECT_EQ(0, result(good)) << good;
  }
  for (auto* denied : {"packet",         "overhear", "overhear-at-once",
                       "firewall",       "raw",      "udp-bind",
                       "ping",           "listen",   "siocgifflags",
                       "remove",         "vsock",    "thread",
                       "fork",           "exec",     "mount",
                       "unshare",        "ptrace",   "bpf",
                       "module",         "reboot",   "io_uring",
                       "settime",        "setuid",   "tiocsti",
                       "limits-of-other"}) {
    EXPECT_EQ(EPERM, result(denied)) << denied;
  }
}

// Catches: a prober that can access more than its own disk.
TEST_F(Confined, ProberProfile) {
  if (kSanitized) GTEST_SKIP() << "it may not map the libraries that this program has then";
  run({"--uid=53", "--seccomp=prober"});
  EXPECT_EQ("2", status["Seccomp"]);
  for (auto* good : {"read-read", "limits"}) EXPECT_EQ(0, result(good)) << good;
  EXPECT_NE(EPERM, result("device-size"));
  for (auto* denied :
       {"unix",   "inet",     "netlink", "packet", "vsock",       "thread", "fork",
        "exec",   "mount",    "unshare", "ptrace", "bpf",         "module", "keyctl",
        "reboot", "io_uring", "settime", "setuid", "device-wipe", "remove", "limits-of-other"}) {
    EXPECT_EQ(EPERM, result(denied)) << denied;
  }
}

// Catches: an installer that can use a network, or access the kernel or other processes; an
// installer that cannot start the programs that make file systems.
TEST_F(Confined, InstallerProfile) {
  run({"--uid=0", "--capabilities=sys_admin", "--seccomp=installer"});
  EXPECT_EQ("2", status["Seccomp"]);
  for (auto* good : {"thread", "fork", "read-read", "write-new", "limits"}) {
    EXPECT_EQ(0, result(good)) << good;
  }
  EXPECT_EQ(ENOENT, result("exec"));
  EXPECT_NE(EPERM, result("detached-mount"));
  for (auto* denied :
       {"unix",           "inet",   "netlink",  "packet", "vsock",   "mount",  "unshare",
        "namespaces",     "ptrace", "bpf",      "module", "keyctl",  "reboot", "io_uring",
        "syslog",         "quota",  "fanotify", "handle", "settime", "setuid", "orphan",
        "limits-of-other"}) {
    EXPECT_EQ(EPERM, result(denied)) << denied;
  }
}

// Catches: a program for volumes that can start programs, use a network, or mount what it has
// opened; one that has no threads to derive keys with.
TEST_F(Confined, VolumesProfile) {
  run({"--uid=0", "--capabilities=sys_admin,ipc_lock", "--seccomp=volumes"});
  EXPECT_EQ("2", status["Seccomp"]);
  for (auto* good : {"thread", "read-read", "write-new"}) EXPECT_EQ(0, result(good)) << good;
  EXPECT_NE(EPERM, result("keyctl"));
  for (auto* denied :
       {"unix", "inet", "netlink", "packet", "vsock", "fork", "exec", "mount", "unshare", "ptrace",
        "bpf", "module", "reboot", "io_uring", "settime", "setuid"}) {
    EXPECT_EQ(EPERM, result(denied)) << denied;
  }
}

// Catches: a foreign program that can reach the node's own sockets, start programs, or access the
// kernel; one that lacks its threads.
TEST_F(Confined, ForeignProfile) {
  run({"--uid=60", "--seccomp=foreign"});
  EXPECT_EQ("2", status["Seccomp"]);
  for (auto* good : {"inet", "netlink", "thread", "read-read", "write-new"}) {
    EXPECT_EQ(0, result(good)) << good;
  }
  for (auto* denied :
       {"unix",   "packet",   "vsock",  "fork",    "exec",   "mount",   "unshare",
        "ptrace", "bpf",      "module", "keyctl",  "reboot", "syslog",  "io_uring",
        "quota",  "fanotify", "handle", "settime", "setuid", "tiocsti", "personality"}) {
    EXPECT_EQ(EPERM, result(denied)) << denied;
  }
#ifdef SYS_modify_ldt
  EXPECT_EQ(EPERM, result("ldt"));
#endif
}

// Catches: a path rule that allows more than it names. On a kernel without Landlock the wrapper
// must continue, and the test checks this.
TEST_F(Confined, Landlock) {
  if (kAddressSanitizer) {
    GTEST_SKIP()
        << "behind the wrapper's Landlock rules a program may execute only itself, and one "
           "with sanitizers is not static: its loader is refused";
  }
  run({"--uid=50", "--landlock-read=" + directory + "/read", "--landlock-read=/proc",
       "--landlock-write=" + directory + "/write"});
  bool has = Landlock::version() > 0;
  RecordProperty("landlock", Landlock::version());
  EXPECT_EQ(0, result("read-read"));
  EXPECT_EQ(0, result("write-new"));
  EXPECT_EQ(has ? EACCES : 0, result("read-write"));
  EXPECT_EQ(has ? EACCES : 0, result("other"));
  TALOS_NEEDS(has, "landlock-6", "a kernel without Landlock: only that it is optional was tested");
}

// Catches: a right that allows more than its purpose: files in a folder that may only be listed,
// files made among devices, devices made where only files are; a device without ioctl(), or whose
// node cannot be made.
TEST_F(Confined, LandlockOfDevices) {
  if (kAddressSanitizer) GTEST_SKIP() << "as above";
  TALOS_NEEDS(Landlock::version() >= 5, "landlock-6",
              "this kernel does not restrict what devices are asked");
  std::initializer_list<std::string> list = {"--uid=0", "--capabilities=mknod,dac_override",
                                             "--landlock-list=" + directory};
  run(list);
  EXPECT_EQ(0, result("list"));
  for (auto* denied : {"read-read", "other", "write-new", "device-open", "make-block"}) {
    EXPECT_EQ(EACCES, result(denied)) << denied;
  }
  run({"--uid=0", "--capabilities=mknod,dac_override", "--landlock-write=" + directory + "/write",
       "--landlock-write=/dev/null"});
  EXPECT_EQ(0, result("write-new"));
  EXPECT_EQ(0, result("device-open"));
  for (auto* denied : {"device-ioctl", "make-block", "list"}) {
    EXPECT_EQ(EACCES, result(denied)) << denied;
  }
  remove((directory + "/write/new").c_str());
  run({"--uid=0", "--capabilities=mknod,dac_override", "--landlock-device=" + directory + "/write",
       "--landlock-device=/dev/null", "--landlock-libraries=" + directory + "/read"});
  for (auto* good : {"device-open", "device-ioctl", "make-block", "read-read"}) {
    EXPECT_EQ(0, result(good)) << good;
  }
  for (auto* denied : {"write-new", "list", "other", "read-write"}) {
    EXPECT_EQ(EACCES, result(denied)) << denied;
  }
}

// Catches: a program that starts without its filter because the profile's name was wrong.
TEST_F(Confined, UnknownProfileStartsNothing) {
  EXPECT_EXIT(
      {
        auto arguments = kj::arr<kj::StringPtr>("--uid=50", "--seccomp=none", "--", "/bin/true");
        try {
          confine::run(parse(arguments));
        } catch (const kj::Exception& e) {
          fprintf(stderr, "%s\n", e.getDescription().cStr());
        }
        _exit(126);
      },
      testing::ExitedWithCode(126), "use one of server, listener, storage");
}

// Catches: a program that drops its rights itself and may replace itself by the one of its command
// line, whose text it can change.
TEST_F(Confined, AProgramThatDropsItsRightsItselfStartsNoOther) {
  EXPECT_EXIT(
      {
        auto options =
            parse(kj::arr<kj::StringPtr>("--uid=50", "--seccomp=parser", "--", "/bin/true"));
        confine::enter(options);
        execve(options.command[0].cStr(), environ, environ);
        _exit(errno);
      },
      testing::ExitedWithCode(EPERM), "");
}

// Catches: a debugger that finds the program already running.
TEST_F(Confined, StopsFirstForADebugger) {
  auto child = fork();
  if (child == 0) {
    auto arguments = kj::arr<kj::StringPtr>("--uid=50", "--stop=first", "--", "/bin/true");
    (void)kj::runCatchingExceptions([&]() { confine::run(parse(arguments)); });
    _exit(126);
  }
  int status;
  ASSERT_EQ(child, waitpid(child, &status, WUNTRACED));
  ASSERT_TRUE(WIFSTOPPED(status)) << status;
  kill(child, SIGCONT);
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace talos::confine
