#include "talosctl/cluster/processes/child-process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::cluster {
namespace {

using ::testing::HasSubstr;

char stateOf(int pid) {
  auto stat = tryReadFile(kj::str("/proc/", pid, "/stat")).orDefault(kj::str(") -"));
  return stat[KJ_ASSERT_NONNULL(stat.findLast(')')) + 2];
}

struct Children : public ::testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  ~Children() noexcept override = default;

  // Starts a process that waits for signals. `hangs`: it hangs in the kernel, as with a disk that
  // does not answer: a parent that waits in vfork(2) reacts only to SIGKILL.
  kj::Own<ChildProcess> start(bool hangs) {
    int ready[2];
    KJ_SYSCALL(pipe(ready));
    KJ_DEFER(close(ready[0]));
    pid_t child;
    KJ_SYSCALL(child = fork());
    if (child == 0) {
      if (hangs && syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
      }
      // If `hangs`, the waiting parent's child runs this.
      auto ignored = write(ready[1], "", 1);
      (void)ignored;
      for (;;) pause();
    }
    close(ready[1]);
    char byte;
    KJ_SYSCALL(read(ready[0], &byte, 1));
    int pidfd;
    KJ_SYSCALL(pidfd = syscall(SYS_pidfd_open, child, 0));
    return kj::heap<ChildProcess>(io.unixEventPort, child, kj::AutoCloseFd(pidfd));
  }
};

// Catches: a stop that returns before the process has stopped.
TEST_F(Children, StopsAndContinues) {
  auto child = start(false);
  child->stop();
  EXPECT_EQ(stateOf(child->pid()), 'T');
  child->signal(SIGCONT);
  child->signal(SIGTERM);
  auto exit = io.provider->getTimer().timeoutAfter(10 * kj::SECONDS, child->onExit());
  EXPECT_STREQ(exit.wait(io.waitScope).describe().cStr(), "killed by signal 15");
}

// Catches: a hanging process that blocks the only thread of all others, or a process that stops
// later, unexpectedly.
TEST_F(Children, OneThatHangsIsNotWaitedForForEver) {
  auto child = start(true);
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { child->stop(); })) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kDeadlineExceeded);
    EXPECT_THAT(messageOf(*e).cStr(), HasSubstr("did not stop within 500 ms; it continues"));
  } else {
    ADD_FAILURE() << "it stopped";
  }
  EXPECT_NE(stateOf(child->pid()), 'T');
}

// Catches: a process that outlives its object, as a zombie or running.
TEST_F(Children, NothingOutlivesItsObject) {
  auto child = start(false);
  auto pid = child->pid();
  child = nullptr;
  EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace talos::cluster
