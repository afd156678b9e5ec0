#include "machined/process1/init/init-harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kj/debug.h>

#include <memory>

#include "machined/process1/init/init-loop.h"

namespace talos::process1 {
namespace {

constexpr int kDeadlineMs = 20'000;

void waitReadable(int fd, const char* what) {
  struct pollfd p = {fd, POLLIN, 0};
  int n = poll(&p, 1, kDeadlineMs);
  KJ_REQUIRE(n == 1, "nothing came within 20 s", what);
}

void must(bool ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "harness: cannot %s: %s\n", what, strerror(errno));
  _exit(99);
}

std::string childPath() {
  char self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
  KJ_REQUIRE(n > 0);
  std::string path(self, static_cast<size_t>(n));
  auto folder = path.substr(0, path.rfind('/'));
  auto beside = folder + "/init-test-child";
  return access(beside.c_str(), X_OK) == 0 ? beside : folder + "/init/init-test-child";
}

void copyFile(int in, const char* to) {
  int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
  char buffer[65536];
  for (ssize_t n; (n = read(in, buffer, sizeof(buffer))) > 0;) {
    must(write(out, buffer, static_cast<size_t>(n)) == n, "copy init-test-child");
  }
  close(in);
  close(out);
}

// Enters an empty root: at its end process 1 unmounts all it can see, and must not see this
// machine's mounts.
void enterEmptyRoot(const std::string& child, bool cgroups) {
  // Opened before the mount below, which hides programs that were built in a folder of /tmp.
  int program = open(child.c_str(), O_RDONLY | O_CLOEXEC);
  must(program >= 0, "open init-test-child");
  must(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
  must(mount("tmpfs", "/tmp", "tmpfs", 0, nullptr) == 0, "mount a tmpfs");
  copyFile(program, "/tmp/child");
  for (const char* d : {"/tmp/old", "/tmp/proc", "/tmp/dev", "/tmp/cg"}) mkdir(d, 0755);
  must(mknod("/tmp/dev/null", S_IFCHR | 0666, makedev(1, 3)) == 0, "make /dev/null");
  must(chdir("/tmp") == 0 && syscall(SYS_pivot_root, ".", "old") == 0 && chroot(".") == 0,
       "enter the empty root");
  must(umount2("/old", MNT_DETACH) == 0, "let go of the old root");
  must(mount("proc", "/proc", "proc", 0, nullptr) == 0, "mount /proc");
  if (cgroups) must(mount("cgroup2", "/cg", "cgroup2", 0, nullptr) == 0, "mount cgroup2");
  FILE* mounts = fopen("/proc/self/mountinfo", "re");
  int lines = 0;
  for (int c; mounts != nullptr && (c = fgetc(mounts)) != EOF;) lines += c == '\n';
  must(lines >= 2 && lines <= 3, "be sure that the root is empty");
  fclose(mounts);
}

void removeCgroup(const std::string& cgroup) {
  pid_t pid = fork();
  if (pid == 0) {
    must(unshare(CLONE_NEWNS) == 0, "unshare");
    must(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
    must(mount("cgroup2", "/tmp", "cgroup2", 0, nullptr) == 0, "mount cgroup2");
    for (const char* below : {"/init", "/a/b", "/a", ""}) rmdir(("/tmp/" + cgroup + below).c_str());
    _exit(0);
  }
  waitpid(pid, nullptr, 0);
}

}  // namespace

Harness::Harness(Options options) : options(options) {
  static int count = 0;
  name = "talos-init-test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());
  auto size = static_cast<socklen_t>(offsetof(struct sockaddr_un, sun_path) + 1 + name.size());
  KJ_SYSCALL(listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  KJ_SYSCALL(bind(listening, reinterpret_cast<struct sockaddr*>(&address), size));
  KJ_SYSCALL(listen(listening, 64));
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  // Like the kernel log, the pipe never makes the writer wait.
  KJ_SYSCALL(fcntl(ends[1], F_SETFL, O_NONBLOCK));
  KJ_SYSCALL(fcntl(ends[1], F_SETPIPE_SZ, 1 << 20));
  console = ends[1];

  // Found before the namespaces change what /proc/self/exe reads.
  childProgram = options.program.empty() ? childPath() : options.program;
  struct clone_args args = {};
  args.flags = CLONE_NEWPID | CLONE_NEWNS;
  args.exit_signal = SIGCHLD;
  long pid = syscall(SYS_clone3, &args, sizeof(args));
  if (pid == 0) become();
  KJ_REQUIRE(pid > 0, "cannot make a pid namespace; these tests need root", strerror(errno));
  init = static_cast<int>(pid);
  close(ends[1]);
  console = ends[0];
}

int onEmptyRoot(int (*function)()) {
  auto program = childPath();
  struct clone_args args = {};
  args.flags = CLONE_NEWPID | CLONE_NEWNS;
  args.exit_signal = SIGCHLD;
  long pid = syscall(SYS_clone3, &args, sizeof(args));
  KJ_REQUIRE(pid >= 0, "cannot make a pid namespace; these tests need root", strerror(errno));
  if (pid == 0) {
    enterEmptyRoot(program, false);
    _exit(function());
  }
  int status = -1;
  KJ_SYSCALL(waitpid(static_cast<pid_t>(pid), &status, 0));
  return status;
}

void Harness::become() {
  std::string root;
  enterEmptyRoot(childProgram, !options.cgroup.empty());
  if (options.disk) {
    mkdir("/disk", 0755);
    must(mount("/dev/host", "/disk", "tmpfs", 0, nullptr) == 0, "mount /disk");
  }
  if (!options.cgroup.empty()) {
    root = "/cg/" + options.cgroup;
    mkdir(root.c_str(), 0755);
  }
  std::string variable = "TALOS_TEST_SOCKET=" + name;
  char* environment[] = {variable.data(), nullptr};
  Settings settings;
  settings.brain = options.brainExists ? kChild : "/no/such/brain";
  settings.brainEnvironment = environment;
  settings.cgroupRoot = root.c_str();
  settings.termGraceMs = options.termGraceMs;
  settings.tickMs = options.tickMs;
  settings.missedBeats = options.missedBeats;
  settings.missedAtStart = options.missedAtStart;
  settings.actionBeginsWithin = options.actionBeginsWithin;
  settings.actionEndsWithin = options.actionEndsWithin;
  settings.trial = options.trial;
  settings.unfedAfter = options.unfedAfter;
  static Loop* loop = new Loop(settings, Console(console, "[init] ", false));
  loop->run();
}

Harness::~Harness() noexcept(false) {
  for (int fd : connections) close(fd);
  close(listening);
  close(console);
  if (init > 0) {
    kill(init, SIGKILL);  // the kernel ends its namespace with it
    waitpid(init, nullptr, 0);
  }
  if (!options.cgroup.empty()) removeCgroup(options.cgroup);
}

Harness::Reporter Harness::next() {
  // Fails immediately, too, when process 1 is gone.
  struct pollfd either[2] = {{listening, POLLIN, 0}, {console, 0, 0}};
  KJ_REQUIRE(poll(either, 2, kDeadlineMs) > 0, "no process reported within 20 s");
  KJ_REQUIRE(either[0].revents != 0, "process 1 ended");
  int connection;
  KJ_SYSCALL(connection = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
  connections.push_back(connection);
  struct ucred peer;
  socklen_t size = sizeof(peer);
  KJ_SYSCALL(getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size));
  waitReadable(connection, "the report itself");
  char what;
  struct iovec io = {&what, 1};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  struct msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  KJ_REQUIRE(recvmsg(connection, &message, MSG_CMSG_CLOEXEC) == 1);
  Reporter reporter;
  reporter.pid = peer.pid;
  if (auto* c = CMSG_FIRSTHDR(&message)) {
    memcpy(&reporter.socket, CMSG_DATA(c), sizeof(int));
    connections.push_back(reporter.socket);
  }
  return reporter;
}

void Harness::waitForConsole(const char* errorText) {
  // One deadline for all lines, because process 1 may keep printing other lines.
  time_t deadline = time(nullptr) + kDeadlineMs / 1000;
  while (consoleText.find(errorText) == std::string::npos) {
    KJ_REQUIRE(time(nullptr) <= deadline, "not said within 20 s", errorText, consoleText);
    waitReadable(console, errorText);
    char buffer[4096];
    ssize_t n = read(console, buffer, sizeof(buffer));
    KJ_REQUIRE(n > 0, "process 1 ended without saying", errorText, consoleText);
    consoleText.append(buffer, static_cast<size_t>(n));
  }
}

int Harness::waitForEnd() {
  int pidfd = static_cast<int>(syscall(SYS_pidfd_open, init, 0));
  KJ_REQUIRE(pidfd >= 0);
  KJ_DEFER(close(pidfd));
  waitReadable(pidfd, "the end of process 1");
  int status;
  KJ_SYSCALL(waitpid(init, &status, 0));
  init = -1;
  return status;
}

SpawnText Harness::child(std::vector<std::string> arguments) const {
  SpawnText what;
  what.argv = {kChild};
  for (auto& a : arguments) what.argv.push_back(a);
  what.environment = {"TALOS_TEST_SOCKET=" + name};
  return what;
}

size_t Harness::openDescriptors() const {
  DIR* d = opendir(("/proc/" + std::to_string(init) + "/fd").c_str());
  KJ_REQUIRE(d != nullptr);
  size_t count = 0;
  while (readdir(d) != nullptr) ++count;
  closedir(d);
  return count;
}

size_t Harness::watchedDescriptors() const {
  auto folder = "/proc/" + std::to_string(init) + "/fdinfo/";
  DIR* d = opendir(folder.c_str());
  KJ_REQUIRE(d != nullptr);
  size_t count = 0;
  while (auto* entry = readdir(d)) {
    FILE* info = fopen((folder + entry->d_name).c_str(), "re");
    char line[256];
    while (info != nullptr && fgets(line, sizeof(line), info) != nullptr) {
      count += strncmp(line, "tfd:", 4) == 0;
    }
    if (info != nullptr) fclose(info);
  }
  closedir(d);
  return count;
}

void Harness::killNow(int pid) {
  KJ_SYSCALL(kill(pid, SIGKILL));
}

void sendBytes(int socket, const void* bytes, size_t size, const std::vector<int>& fds) {
  struct iovec io = {const_cast<void*>(bytes), size};
  struct msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 64)] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    auto* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  KJ_SYSCALL(sendmsg(socket, &message, MSG_NOSIGNAL));
}

void send(int socket, RequestKind kind, uint32_t id, const char* name, uint32_t argument,
          uint64_t sequence, const std::vector<int>& fds) {
  Request r = {};
  r.version = kVersion;
  r.kind = kind;
  r.id = id;
  r.argument = argument;
  r.sequence = sequence;
  strncpy(r.name, name, kNameSize - 1);
  sendBytes(socket, &r, sizeof(r), fds);
}

void sendSpawn(int socket, uint32_t id, const char* slot, const SpawnText& what) {
  auto spawn = std::make_unique<Spawn>();
  memset(spawn.get(), 0, sizeof(Spawn));
  spawn->head.version = kVersion;
  spawn->head.kind = RequestKind::kSpawn;
  spawn->head.id = id;
  strncpy(spawn->head.name, slot, kNameSize - 1);
  strncpy(spawn->cgroup, what.cgroup.c_str(), kCgroupSize - 1);
  spawn->argc = static_cast<uint16_t>(what.argv.size());
  spawn->envc = static_cast<uint16_t>(what.environment.size());
  std::vector<int> fds;
  if (what.output >= 0) {
    spawn->hasOutput = 1;
    fds.push_back(what.output);
  }
  for (auto& [fd, as] : what.passed) {
    spawn->as[spawn->passed++] = static_cast<uint8_t>(as);
    fds.push_back(fd);
  }
  size_t used = 0;
  for (auto* list : {&what.argv, &what.environment}) {
    for (auto& s : *list) {
      memcpy(spawn->text + used, s.c_str(), s.size() + 1);
      used += s.size() + 1;
    }
  }
  spawn->textSize = static_cast<uint16_t>(used);
  sendBytes(socket, spawn.get(), offsetof(Spawn, text) + used, fds);
}

Received receive(int socket) {
  waitReadable(socket, "a report of process 1");
  Received received;
  struct iovec io = {&received.report, sizeof(received.report)};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  struct msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  KJ_REQUIRE(n == static_cast<ssize_t>(sizeof(Report)), "not a report", n);
  if (auto* c = CMSG_FIRSTHDR(&message)) memcpy(&received.fd, CMSG_DATA(c), sizeof(int));
  return received;
}

std::vector<Received> inventory(int socket) {
  std::vector<Received> all;
  do {
    all.push_back(receive(socket));
  } while (all.back().report.kind != ReportKind::kReady);
  return all;
}

std::string readAll(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    waitReadable(fd, "output of a child");
    ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n <= 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

bool waitUntilGone(int pid) {
  time_t deadline = time(nullptr) + kDeadlineMs / 1000;
  while (kill(pid, 0) == 0 || errno != ESRCH) {
    if (time(nullptr) > deadline) return false;
    sched_yield();
  }
  return true;
}

}  // namespace talos::process1
