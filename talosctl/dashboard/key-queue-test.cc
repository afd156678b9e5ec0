#include "talosctl/dashboard/key-queue.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/string.h>

#include <string>

namespace talos::talosctl::dashboard {
namespace {

struct KeyQueueTest : public testing::Test {
  ~KeyQueueTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::Maybe<kj::Own<kj::PromiseFulfiller<kj::Array<char>>>> read;
  KeyQueue queue{[this]() {
    auto paf = kj::newPromiseAndFulfiller<kj::Array<char>>();
    read = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  }};

  void type(kj::StringPtr keys) {
    scope.poll();
    KJ_ASSERT_NONNULL(read)->fulfill(kj::heapArray<char>(keys.asArray()));
  }
  std::string take(kj::Promise<void> pause = kj::NEVER_DONE) {
    auto taken = queue.take(kj::mv(pause)).wait(scope);
    return {taken.begin(), taken.size()};
  }
};

// Catches: a key that was read at the moment when a pause ended, and dropped with the read.
TEST_F(KeyQueueTest, NoKeyIsLostWhenAPauseEndsFirst) {
  auto pause = kj::newPromiseAndFulfiller<void>();
  auto taking = queue.take(kj::mv(pause.promise));
  scope.poll();
  pause.fulfiller->fulfill();
  KJ_ASSERT_NONNULL(read)->fulfill(kj::heapArray<char>("\t"_kj.asArray()));
  auto taken = taking.wait(scope);
  std::string all(taken.begin(), taken.size());
  all += take(kj::READY_NOW);
  EXPECT_EQ(all, "\t");
}

TEST_F(KeyQueueTest, KeysWaitForWhoTakesThem) {
  type("a");
  type("bc");
  scope.poll();
  EXPECT_EQ(take(), "abc");
  EXPECT_EQ(take(kj::READY_NOW), "");
  auto taking = queue.take(kj::NEVER_DONE);
  EXPECT_FALSE(taking.poll(scope));
  type("d");
  EXPECT_EQ(taking.wait(scope).size(), 1u);
}

// Catches: a dashboard that continues without a terminal.
TEST_F(KeyQueueTest, TheEndOfTheKeyboardIsTheEnd) {
  auto taking = queue.take(kj::NEVER_DONE);
  scope.poll();
  KJ_ASSERT_NONNULL(read)->reject(KJ_EXCEPTION(FAILED, "the terminal is gone"));
  auto failure = kj::runCatchingExceptions([&]() { taking.wait(scope); });
  EXPECT_EQ(KJ_ASSERT_NONNULL(failure).getDescription(), "the terminal is gone"_kj);
}

}  // namespace
}  // namespace talos::talosctl::dashboard
