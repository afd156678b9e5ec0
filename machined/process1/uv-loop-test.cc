#include "machined/process1/uv-loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/mutex.h>
#include <signal.h>
#include <unistd.h>

namespace talos {
namespace {

struct Uv : testing::Test {
  ~Uv() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};

  // A promise that never comes fails the test by its deadline instead of hanging it.
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return io.provider->getTimer()
        .timeoutAfter(20 * kj::SECONDS, kj::mv(promise))
        .wait(io.waitScope);
  }
  kj::Array<kj::String> sh(kj::StringPtr script) {
    return kj::arr(kj::str("/bin/sh"), kj::str("-c"), kj::str(script));
  }
};

// Catches: a result or an exception of the pool's thread that gets lost or ends the process.
TEST_F(Uv, BlockingBringsResultAndException) {
  EXPECT_EQ(wait(uv.blocking([] { return 42; })), 42);
  auto text = wait(uv.blocking([text = kj::str("moved")]() mutable { return kj::mv(text); }));
  EXPECT_STREQ(text.cStr(), "moved");
  bool ran = false;
  wait(uv.blocking([&ran] { ran = true; }));
  EXPECT_TRUE(ran);
  auto failure = kj::runCatchingExceptions(
      [&] { wait(uv.blocking([]() -> int { KJ_FAIL_REQUIRE("no such disk"); })); });
  EXPECT_NE(KJ_ASSERT_NONNULL(failure).getDescription().findFirst('d'), nullptr);
}

// Catches: work that runs on the loop's thread, where it would block everything else.
TEST_F(Uv, LoopTurnsWhileWorkBlocks) {
  kj::MutexGuarded<bool> released(false);
  auto work = uv.blocking([&released] {
    released.when([](bool r) { return r; }, [](bool&) {});
    return getpid();
  });
  wait(kj::evalLater([&released] { *released.lockExclusive() = true; }));
  EXPECT_EQ(wait(kj::mv(work)), getpid());
}

// Catches: the 0 of uv_backend_timeout() of an empty loop taken for "again now": a spin at 100 %
// CPU.
TEST_F(Uv, IdleLoopDoesNotTurn) {
  wait(uv.blocking([] {}));
  io.waitScope.poll(1000);
  auto before = uv.turns();
  EXPECT_LT(io.waitScope.poll(1000), 1000u);
  EXPECT_EQ(uv.turns(), before);
  wait(uv.blocking([] {}));  // and it still wakes up
}

// Catches: an edge lost between two runs of libuv: one of many results never arrives.
TEST_F(Uv, ManyAtOnceAllArrive) {
  auto promises = kj::heapArrayBuilder<kj::Promise<int>>(2000);
  for (int i = 0; i < 2000; i++) promises.add(uv.blocking([i] { return i; }));
  auto results = wait(kj::joinPromises(promises.finish()));
  for (int i = 0; i < 2000; i++) ASSERT_EQ(results[i], i);
}

// Catches: use after free when the caller has lost interest before the work is done.
TEST_F(Uv, DroppedPromiseLetsWorkEnd) {
  kj::MutexGuarded<int> stage(0);
  struct Finish {  // fires when the work object is destroyed, on the loop
    explicit Finish(bool& done) : done(done) {}
    ~Finish() { done = true; }
    bool& done;
  };
  bool destroyed = false;
  {
    auto dropped = uv.blocking([&stage, keep = kj::heap<Finish>(destroyed)]() {
      stage.when([](int s) { return s == 1; }, [](int& s) { s = 2; });
      return 1;
    });
  }
  *stage.lockExclusive() = 1;
  stage.when([](int s) { return s == 2; }, [](int&) {});
  while (!destroyed) wait(uv.blocking([] {}));
  EXPECT_TRUE(destroyed);
}

// Catches: a destructor that waits for queued work for ever, or promises that are left hanging.
TEST(UvLifetime, DestructorRejectsWhatHasNotBegun) {
  auto io = kj::setupAsyncIo();
  kj::Vector<kj::Promise<void>> promises;
  {
    UvLoop uv(io.unixEventPort, io.provider->getTimer());
    for (int i = 0; i < 500; i++) promises.add(uv.blocking([] { usleep(100); }));
  }
  unsigned ended = 0;
  for (auto& promise : promises) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { promise.wait(io.waitScope); })) {
      (void)e;
    }
    ++ended;
  }
  EXPECT_EQ(ended, 500u);
}

// Catches: exit code and signal mixed up.
TEST_F(Uv, ChildStatus) {
  auto argv = sh("exit 7");
  auto status = wait(uv.spawn({.argv = argv})->onExit());
  EXPECT_EQ(status.code, 7);
  EXPECT_EQ(status.signal, 0);

  argv = sh("kill -9 $$");
  status = wait(uv.spawn({.argv = argv})->onExit());
  EXPECT_EQ(status.signal, SIGKILL);
}

// Catches: kill() of a child that is gone (its pid may be another's), and one that does not arrive.
TEST_F(Uv, KillReachesOnlyTheLivingChild) {
  auto argv = sh("read never");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  auto child = uv.spawn({.argv = argv, .stdinFd = ends[0]});
  EXPECT_GT(child->pid(), 0);
  child->kill(SIGTERM);
  EXPECT_EQ(wait(child->onExit()).signal, SIGTERM);
  child->kill(SIGTERM);
  close(ends[0]);
  close(ends[1]);
}

// Catches: standard output or environment that does not reach the child.
TEST_F(Uv, ChildGetsOutputAndEnvironment) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  auto argv = sh("echo $WORD-$HOME");
  auto environment = kj::arr(kj::str("WORD=hello"));
  auto child =
      uv.spawn({.argv = argv, .environment = environment.asPtr().asConst(), .stdoutFd = ends[1]});
  close(ends[1]);
  wait(child->onExit());
  char text[64] = {};
  EXPECT_GT(read(ends[0], text, sizeof text - 1), 0);
  EXPECT_STREQ(text, "hello-\n");
  close(ends[0]);
}

// Catches: an error that does not say which program, and a handle left open by a failed start.
TEST_F(Uv, MissingProgramIsNamed) {
  auto argv = kj::arr(kj::str("/nonexistent/tool"));
  auto failure = kj::runCatchingExceptions([&] { uv.spawn({.argv = argv}); });
  EXPECT_STREQ(KJ_ASSERT_NONNULL(failure).getDescription().cStr(),
               "cannot start /nonexistent/tool: no such file or directory");
}

// Catches: lost SIGCHLDs when many children end at once.
TEST_F(Uv, ManyChildren) {
  auto argv = sh("exit 3");
  kj::Vector<kj::Own<UvLoop::Child>> children;
  for (int i = 0; i < 40; i++) children.add(uv.spawn({.argv = argv}));
  for (auto& child : children) EXPECT_EQ(wait(child->onExit()).code, 3);
}

}  // namespace
}  // namespace talos
