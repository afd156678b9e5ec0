#include "common/base/waits.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/within.h"

namespace talos {
namespace {

std::multiset<std::string> listedWaits() {
  std::multiset<std::string> texts;
  Wait::forEach([&](const char* text, uint64_t ns) {
    EXPECT_LT(ns, 3600ull * 1'000'000'000);
    texts.insert(text);
  });
  return texts;
}

// Catches: a wait that is listed after its end, or by an object that was moved from.
TEST(Waits, AreListedUntilTheyEnd) {
  using Texts = std::multiset<std::string>;
  EXPECT_EQ(Texts(), listedWaits());
  {
    Wait first("the config"), second("etcd\n\x1b[31m");
    EXPECT_EQ((Texts{"the config", "etcd??[31m"}), listedWaits());
    Wait moved = kj::mv(first);
    EXPECT_EQ(2u, listedWaits().size());
    moved = kj::mv(second);
    EXPECT_EQ((Texts{"etcd??[31m"}), listedWaits());
  }
  EXPECT_EQ(Texts(), listedWaits());
}

// Catches: a text without an end; an entry beyond the table.
TEST(Waits, AreBounded) {
  std::vector<Wait> waits;
  for (size_t i = 0; i < Wait::kMost + 10; ++i) waits.emplace_back(kj::str(kj::repeat('x', 500)));
  auto listed = listedWaits();
  EXPECT_EQ(Wait::kMost, listed.size());
  EXPECT_EQ(std::string(Wait::kLongestText - 1, 'x'), *listed.begin());
}

// Catches: two threads that take one entry.
TEST(Waits, OfSeveralThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int n = 0; n < 2000; ++n) {
        Wait one("a"), two("b");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(listedWaits().empty());
}

// Catches: a running limit that is not listed.
TEST(Waits, EachLimitIsOne) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  {
    auto limited = within(timer, 1 * kj::SECONDS, kj::Promise<void>(kj::NEVER_DONE),
                          kj::str("no answer of etcd"));
    EXPECT_EQ(1u, listedWaits().count("no answer of etcd"));
  }
  EXPECT_TRUE(listedWaits().empty());
}

}  // namespace
}  // namespace talos
