// The program itself, once for each command: a reader of its output that goes, a disk that is full,
// and Ctrl-C while it waits for a node.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
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

}  // namespace
}  // namespace talos::talosctl
