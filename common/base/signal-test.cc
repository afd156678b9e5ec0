#include "common/base/signal.h"

#include <gtest/gtest.h>

#include <optional>

namespace talos {
namespace {

class SignalTest : public ::testing::Test {
 public:
  ~SignalTest() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  Signal signal;
};

// Catches: a waiter that stays asleep because another one was woken; a waiter that wakes for an
// event from before it waited.
TEST_F(SignalTest, TheNextRaiseWakesAllThatWait) {
  signal.raise();
  auto one = signal.next(), two = signal.next();
  EXPECT_FALSE(one.poll(scope));
  signal.raise();
  signal.raise();
  auto late = signal.next();
  one.wait(scope);
  two.wait(scope);
  EXPECT_FALSE(late.poll(scope));
}

// Catches: a raise that is lost while the waiter does other work; a raise that wakes it twice.
TEST_F(SignalTest, ARaiseIsKeptForWhoIsBusy) {
  signal.raise();
  signal.raise();
  signal.wait().wait(scope);
  auto again = signal.wait();
  EXPECT_FALSE(again.poll(scope));
  signal.raise();
  signal.raise();  // before it runs: this raise joins the first
  again.wait(scope);
  EXPECT_FALSE(signal.wait().poll(scope));
}

// Catches: a raise counted as seen because of a waiter that had given up.
TEST_F(SignalTest, ARaiseIsKeptWhenTheWaitWasDropped) {
  {
    auto dropped = signal.wait();
  }
  signal.raise();
  signal.wait().wait(scope);
  {
    auto overtaken = signal.wait();
    signal.raise();
  }
  signal.wait().wait(scope);
}

// Catches: a waiter that hangs for ever when its signal is destroyed.
TEST_F(SignalTest, ItsEndRejectsWhoWaits) {
  std::optional<Signal> gone(std::in_place);
  auto next = gone->next(), wait = gone->wait();
  gone.reset();
  EXPECT_ANY_THROW(next.wait(scope));
  EXPECT_ANY_THROW(wait.wait(scope));
}

}  // namespace
}  // namespace talos
