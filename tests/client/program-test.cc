// The program itself, once for each command: a reader of its output that goes, a disk that is full,
// and Ctrl-C while it waits for a node. Standard streams that were closed before the start, also of
// the file that holds the programs of a node.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/node-layout.h"
#include "common/tls/pki.h"
#include "tests/client/command-words.h"

namespace talos::talosctl {
namespace {

constexpr int kTimeoutMs = 60'000;

struct Program : public ::testing::Test {
  kj::Own<Command> root = newRoot();
  std::vector<Leaf> leaves;
  std::string path, folder;

  Program() {
    addWholeTable(*root);
    leaves = leavesOf(*root);
    path = getenv("TALOSCTL") == nullptr ? "" : getenv("TALOSCTL");
    char name[] = "/tmp/client-program-XXXXXX";
    folder = mkdtemp(name);
  }
  ~Program() noexcept override { removeTree(folder.c_str()); }
  void SetUp() override { ASSERT_NE(path, "") << "TALOSCTL must name the program"; }

  pid_t start(const std::vector<std::string>& words, int out, int err) {
    std::vector<char*> argv{const_cast<char*>(path.c_str())};
    for (auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_t pid;
    KJ_SYSCALL(pid = fork());
    if (pid == 0) {
      dup2(open("/dev/null", O_RDONLY), 0);
      dup2(out, 1);
      dup2(err, 2);
      signal(SIGPIPE, SIG_DFL);
      setenv("HOME", folder.c_str(), 1);
      setenv("TALOSCONFIG", (folder + "/talosconfig").c_str(), 1);
      if (chdir(folder.c_str()) == 0) execv(argv[0], argv.data());
      _exit(127);
    }
    return pid;
  }
  // Returns the program's wait status; -1 after kTimeoutMs, when it is killed.
  static int end(pid_t pid) {
    int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    KJ_ASSERT(pidfd >= 0);
    KJ_DEFER(close(pidfd));
    struct pollfd wait = {.fd = pidfd, .events = POLLIN, .revents = 0};
    bool ended = poll(&wait, 1, kTimeoutMs) == 1;
    if (!ended) kill(pid, SIGKILL);
    int status = 0;
    KJ_SYSCALL(waitpid(pid, &status, 0));
    return ended ? status : -1;
  }
};

// Catches: a build without man pages; a page of a command that has changed or is gone since.
TEST_F(Program, TheBuildHasItsManPages) {
  auto built = getenv("PAGES");
  if (built == nullptr) GTEST_SKIP() << "only a build for this architecture makes them";
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  KJ_DEFER(close(null));
  auto fresh = folder + "/pages";
  int status = end(start({"docs", fresh}, null, null));
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  auto names = namesIn(fresh.c_str());
  EXPECT_FALSE(names.empty());
  EXPECT_STREQ(kj::strArray(namesIn(built), " ").cStr(), kj::strArray(names, " ").cStr());
  for (auto& name : names) {
    EXPECT_TRUE(readFile(kj::str(built, "/", name)) == readFile(kj::str(fresh.c_str(), "/", name)))
        << name.cStr();
  }
}

// Catches: an exception, a core or a hang when the reader of a pipe goes (`talosctl … | head`).
TEST_F(Program, AReaderThatGoesEndsIt) {
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  KJ_DEFER(close(null));
  for (auto& leaf : leaves) {
    SCOPED_TRACE(leaf.name);
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
    close(ends[0]);
    auto words = leaf.path;
    words.push_back("-h");
    int status = end(start(words, ends[1], null));
    close(ends[1]);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << status;
  }
}

// Catches: a result that is lost with success.
TEST_F(Program, AFullDiskIsAFailure) {
  int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  KJ_DEFER(close(full));
  for (auto& leaf : leaves) {
    SCOPED_TRACE(leaf.name);
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
    auto words = leaf.path;
    words.push_back("-h");
    int status = end(start(words, full, ends[1]));
    close(ends[1]);
    char text[4096];
    auto size = read(ends[0], text, sizeof(text));
    close(ends[0]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
    EXPECT_THAT(std::string(text, size > 0 ? size : 0), ::testing::HasSubstr("No space left"));
  }
}

// Catches: a command that a first Ctrl-C leaves running, or that a script sees as failed.
TEST_F(Program, CtrlCEndsItWhileItWaits) {
  constexpr auto kAddress = "127.44.0.5";
  constexpr int kInterrupted = 128 + SIGINT;  // as shells have it
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  KJ_DEFER(close(listener));
  int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kApidPort);
  inet_pton(AF_INET, kAddress, &address.sin_addr);
  KJ_SYSCALL(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
  KJ_SYSCALL(listen(listener, 16));
  auto authority = pki::makeAuthority({.organization = "talos"});
  auto leaf = pki::issue(authority.certificate, authority.key,
                         {.organizations = kj::arr(kj::str("os:admin")), .server = false});
  auto encoded = [](kj::StringPtr text) { return kj::encodeBase64(text.asBytes()); };
  writeFileAtomically(
      kj::str(folder.c_str(), "/talosconfig"),
      kj::str("context: test\ncontexts:\n    test:\n        endpoints: [", kAddress,
              "]\n        nodes: [10.0.0.2]\n        ca: ", encoded(authority.certificate),
              "\n        crt: ", encoded(leaf.certificate), "\n        key: ", encoded(leaf.key),
              "\n"),
      0600);
  setenv("TALOS_EDITOR", "true", 1);  // without a terminal `edit` needs one that is named
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  KJ_DEFER(close(null));
  for (auto& command : leaves) {
    // Commands that read a file first are in the tests of the table.
    if (!command.talksToNodes() || command.flag("file") != nullptr) continue;
    SCOPED_TRACE(command.name);
    // The command before may have called twice.
    for (int old; (old = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) close(old);
    auto pid = start(command.line(), null, null);
    struct pollfd wait = {.fd = listener, .events = POLLIN, .revents = 0};
    bool called = poll(&wait, 1, kTimeoutMs) == 1;
    EXPECT_TRUE(called) << "it does not call the node";
    int accepted = called ? accept4(listener, nullptr, nullptr, SOCK_CLOEXEC) : -1;
    kill(pid, SIGINT);
    int status = end(pid);
    if (accepted >= 0) close(accepted);
    bool success = command.command->interrupt == Interrupt::kIsSuccess;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == (success ? 0 : kInterrupted)) << status;
  }
}

struct StreamsAtEnd {
  int status = -1;       // wait status
  std::string files[3];  // what the descriptors 0 to 2 refer to when the program exits
};

// Waits for the child's next stop or its end. Returns -1 after kTimeoutMs, when it is killed.
// SIGCHLD must have been blocked since before the fork.
int nextStop(pid_t pid) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  timespec time = {.tv_sec = kTimeoutMs / 1000, .tv_nsec = 0};
  for (;;) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) return status;
    if (sigtimedwait(&child, nullptr, &time) < 0 && errno == EAGAIN) break;
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return -1;
}

// Runs a program whose descriptors 0 to 2 are closed if their bit is set in `closed`; the others
// are /dev/zero. The kernel stops it where it exits, when its descriptors are still open.
StreamsAtEnd runWithClosed(unsigned closed, const std::string& program,
                           const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  sigset_t child, before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &child, &before);
  KJ_DEFER(pthread_sigmask(SIG_SETMASK, &before, nullptr));
  pid_t pid;
  KJ_SYSCALL(pid = fork());
  if (pid == 0) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; ++fd) {
      close(fd);
      if ((closed >> fd & 1) == 0) dup2(zero, fd);
    }
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  StreamsAtEnd result;
  bool traced = false;
  for (;;) {
    int status = nextStop(pid);
    if (status < 0 || WIFEXITED(status) || WIFSIGNALED(status)) {
      result.status = status;
      return result;
    }
    if (!traced) ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL);
    traced = true;
    bool exits = status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8);
    for (int fd = 0; exits && fd < 3; ++fd) {
      char name[64] = {};
      auto link = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
      if (readlink(link.c_str(), name, sizeof(name) - 1) > 0) result.files[fd] = name;
    }
    int signal = exits || WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    ptrace(PTRACE_CONT, pid, 0, signal);
  }
}

void expectNullWhereClosed(const std::string& program, const std::vector<std::string>& words,
                           int status) {
  constexpr unsigned kSets = 8;
  for (unsigned closed = 0; closed < kSets; ++closed) {
    SCOPED_TRACE(testing::Message() << words[0] << ", closed: " << closed);
    auto ended = runWithClosed(closed, program, words);
    EXPECT_TRUE(WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == status) << ended.status;
    for (int fd = 0; fd < 3; ++fd) {
      EXPECT_EQ(ended.files[fd], closed >> fd & 1 ? "/dev/null" : "/dev/zero") << fd;
    }
  }
}

// Catches: an event loop, a socket or a file that gets the number of a stream that was closed
// before the start, so that the result is written into it, or the command hangs.
TEST_F(Program, AStreamClosedBeforeTheStartIsTheNullDevice) {
  expectNullWhereClosed(path, {"talosctl", "version", "--client"}, 0);
  expectNullWhereClosed(path, {"talosctl", "no-such-command"}, 1);
}

// Catches: the same in the programs of a node.
TEST_F(Program, AClosedStreamOfANodesProgramIsTheNullDevice) {
  ASSERT_NE(getenv("NODE"), nullptr) << "NODE must name the file with the programs of a node";
  constexpr int kUsage = 2;
  expectNullWhereClosed(getenv("NODE"), {"modprobe"}, kUsage);
}

}  // namespace
}  // namespace talos::talosctl
