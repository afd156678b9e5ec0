#include "common/base/backoff.h"

#include <gtest/gtest.h>

namespace talos {
namespace {

using Pace = Backoff::Pace;

struct Row {
  const char* name;
  Pace pace;
  double chance;
  unsigned failures;  // so many before
  int64_t ms;
};

// Catches: growth that starts at the second failure or overflows, a ceiling that is passed or not
// spread, chance at the wrong end.
TEST(BackoffTest, GrowsUpToALongestPauseAndIsSpread) {
  constexpr Pace kDoubling = {100 * kj::MILLISECONDS, 5 * kj::SECONDS};
  constexpr Pace kByHalf = {500 * kj::MILLISECONDS, 60 * kj::SECONDS, 1.5, 0.5, 1.5};
  constexpr Pace kOnlyLess = {1 * kj::SECONDS, 8 * kj::SECONDS, 2, 1, 0.5};
  const Row rows[] = {
      {"the first pause", kDoubling, 0, 0, 100},
      {"doubled once", kDoubling, 0, 1, 200},
      {"the last below the longest", kDoubling, 0, 5, 3200},
      {"the longest", kDoubling, 0, 6, 5000},
      {"for ever", kDoubling, 0, 5000, 5000},
      {"no spread asked for", kDoubling, 0.999999, 0, 100},
      {"half, the middle", kByHalf, 0.5, 0, 500},
      {"half, grown by half", kByHalf, 0.5, 2, 1125},
      {"half, the least", kByHalf, 0, 0, 250},
      {"half, the most", kByHalf, 0.999999, 0, 749},
      {"half, the longest spread down", kByHalf, 0, 50, 30'000},
      {"half, the longest spread up", kByHalf, 0.999999, 50, 89'999},
      {"chance takes off, none", kOnlyLess, 0, 1, 2000},
      {"chance takes off, half of the longest", kOnlyLess, 0.999999, 9, 4000},
  };
  for (auto& row : rows) {
    Backoff backoff(row.pace);
    for (unsigned i = 0; i < row.failures; ++i) backoff.next(0.5);
    EXPECT_EQ(backoff.next(row.chance) / kj::MILLISECONDS, row.ms) << row.name;
    EXPECT_EQ(backoff.failures(), row.failures + 1) << row.name;
  }
}

// Catches: a success that only slows the growth down.
TEST(BackoffTest, BeginsAgainAfterASuccess) {
  Backoff backoff({1 * kj::SECONDS, 64 * kj::SECONDS});
  for (unsigned i = 0; i < 4; ++i) backoff.next();
  backoff.reset();
  EXPECT_EQ(backoff.failures(), 0u);
  EXPECT_EQ(backoff.next() / kj::SECONDS, 1);
  EXPECT_EQ(backoff.next() / kj::SECONDS, 2);
}

}  // namespace
}  // namespace talos
