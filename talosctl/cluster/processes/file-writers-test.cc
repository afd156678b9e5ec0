#include "talosctl/cluster/processes/file-writers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::cluster {
namespace {

struct FileWriters : public ::testing::Test {
  kj::String folder;
  kj::Vector<pid_t> children;
  FileWriters() {
    char path[] = "/tmp/file-writers-XXXXXX";
    folder = kj::str(mkdtemp(path));
    for (auto name : {"/c", "/c2"}) makeDirectories(kj::str(folder, name));
  }
  ~FileWriters() noexcept override {
    for (auto child : children) end(child);
    removeTree(folder);
  }
  // Starts a process that has this file open when this returns, and continues to run.
  pid_t open(kj::StringPtr name, int flags) {
    auto path = kj::str(folder, "/", name);
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
    kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
    auto child = fork();
    if (child == 0) {
      if (::open(path.cStr(), flags | O_CREAT, 0600) < 0 || write(writing, "x", 1) != 1) _exit(1);
      for (;;) pause();
    }
    char ready;
    KJ_ASSERT(read(reading, &ready, 1) == 1);
    children.add(child);
    return child;
  }
  static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  std::string found() { return kj::strArray(fileWriters(kj::str(folder, "/c")), " ").cStr(); }
};

// Catches: a machine whose disk is removed while it runs; a reader of a console, or a process of a
// cluster with a longer name, that counts as a writer.
TEST_F(FileWriters, AreFound) {
  EXPECT_EQ(found(), "");
  open("c/n1.log", O_RDONLY);
  open("c2/n1.disk", O_RDWR);
  kj::AutoCloseFd own(
      ::open(kj::str(folder, "/c/lock").cStr(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(found(), "");
  auto machine = open("c/n1.disk", O_RDWR);
  EXPECT_EQ(found(), kj::str(machine).cStr());
  auto appends = open("c/n1.log", O_WRONLY | O_APPEND);
  EXPECT_EQ(found(), kj::str(kj::min(machine, appends), " ", kj::max(machine, appends)).cStr());
}

TEST_F(FileWriters, AreWaitedForAndNamed) {
  auto machine = open("c/n1.disk", O_RDWR);
  auto path = kj::str(folder, "/c");
  auto failed =
      kj::runCatchingExceptions([&]() { requireNoFileWriters(path, 10 * kj::MILLISECONDS); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failed)),
            kj::str("processes still write to ", path, ": ", machine, "; end them, then repeat"));
  end(machine);
  requireNoFileWriters(path, 0 * kj::SECONDS);
  auto dying = open("c/n1.disk", O_RDWR);
  kill(dying, SIGKILL);  // dies, but not at the same instant
  requireNoFileWriters(path, 5 * kj::SECONDS);
}

}  // namespace
}  // namespace talos::cluster
