#include "apid/gate/call-log.h"

#include <gtest/gtest.h>

namespace talos::apid {
namespace {

constexpr auto kStart = kj::origin<kj::TimePoint>() + CallLog::kPause;

// Catches: a burst that is cut, steady calls that fill the log, hidden calls that are not counted
// or counted twice.
TEST(CallLog, ShowsABurstAndThenFewCalls) {
  CallLog log;
  for (unsigned i = 0; i < CallLog::kBurst; ++i) EXPECT_EQ(0u, log.next(kStart).orDefault(99));
  for (unsigned i = 0; i < 7; ++i) {
    EXPECT_TRUE(log.next(kStart + CallLog::kPause - 1 * kj::NANOSECONDS) == nullptr);
  }
  EXPECT_EQ(7u, log.next(kStart + CallLog::kPause).orDefault(99));
  EXPECT_TRUE(log.next(kStart + CallLog::kPause) == nullptr);
  EXPECT_EQ(1u, log.next(kStart + 2 * CallLog::kPause).orDefault(99));
}

// Catches: lines that are saved up without a limit while no client calls, or a part of a pause that
// is lost with each call.
TEST(CallLog, EarnsALineWithEachPauseUpToABurst) {
  CallLog log;
  while (log.next(kStart) != nullptr) {
  }
  auto half = CallLog::kPause / 2;
  EXPECT_TRUE(log.next(kStart + half) == nullptr);
  EXPECT_TRUE(log.next(kStart + 2 * half) != nullptr);
  auto later = kStart + 1000 * CallLog::kPause;
  unsigned lines = 0;
  while (log.next(later) != nullptr) ++lines;
  EXPECT_EQ(CallLog::kBurst, lines);
}

}  // namespace
}  // namespace talos::apid
