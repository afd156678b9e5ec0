#include "machined/process1/uv-loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

namespace talos {
namespace {

struct Uv : testing::Test {
  ~Uv() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};

  // Waits with a deadline, so that a promise that never resolves fails the test instead of hanging
  // it.
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return io.provider->getTimer()
        .timeoutAfter(20 * kj::SECONDS, kj::mv(promise))
        .wait(io.waitScope);
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
  std::atomic<bool> released = false;
  auto work = uv.blocking([&released] {
    released.wait(false);
    return getpid();
  });
  wait(kj::evalLater([&released] {
    released = true;
    released.notify_one();
  }));
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

// Catches: use after free when the caller drops the promise before the work is done.
TEST_F(Uv, DroppedPromiseLetsWorkEnd) {
  std::atomic<int> stage = 0;
  struct Finish {  // fires when the work object is destroyed, on the loop
    explicit Finish(bool& done) : done(done) {}
    ~Finish() { done = true; }
    bool& done;
  };
  bool destroyed = false;
  {
    auto dropped = uv.blocking([&stage, keep = kj::heap<Finish>(destroyed)]() {
      stage.wait(0);
      stage = 2;
      stage.notify_one();
      return 1;
    });
  }
  stage = 1;
  stage.notify_one();
  stage.wait(1);
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

}  // namespace
}  // namespace talos
