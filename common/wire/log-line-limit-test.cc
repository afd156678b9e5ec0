#include "common/wire/log-line-limit.h"

#include <gtest/gtest.h>

namespace talos {
namespace {

struct Steady final : kj::MonotonicClock {
  kj::TimePoint time = kj::origin<kj::TimePoint>() + 1 * kj::HOURS;
  kj::TimePoint now() const override { return time; }
};

struct LinesOfPeers : testing::Test {
  ~LinesOfPeers() noexcept override {}
  Steady clock;
  LineLimit limit{clock, {.own = 2, .perPeer = 5, .shared = 10, .peers = 4}};

  unsigned admitted(kj::StringPtr peer, unsigned lines) {
    unsigned count = 0;
    for (unsigned i = 0; i < lines; ++i) count += limit.admits(peer);
    return count;
  }
  std::string nextWindow() {
    clock.time += 60 * kj::SECONDS;
    testing::internal::CaptureStderr();
    limit.admits("a");
    return testing::internal::GetCapturedStderr();
  }
};

// Catches: one noisy peer that hides the errors of the others.
TEST_F(LinesOfPeers, ANoisyPeerHidesNoOther) {
  EXPECT_EQ(admitted("noisy", 1000), 5u);
  EXPECT_EQ(admitted("quiet", 2), 2u);
}

// Catches: many noisy peers that hide the first lines of another one.
TEST_F(LinesOfPeers, EachPeerHasLinesOfItsOwn) {
  for (auto peer : {"a", "b", "c"}) admitted(peer, 1000);
  EXPECT_EQ(admitted("d", 1000), 3u) << "2 of its own, and what is left of the shared ones";
}

// Catches: a flood from ever new addresses that is a flood of lines, or of memory.
TEST_F(LinesOfPeers, ManyPeersAreBounded) {
  unsigned total = 0;
  for (unsigned i = 0; i < 10'000; ++i) total += admitted(kj::str("peer ", i), 3);
  EXPECT_LE(total, 4 * 2 + 10 + 2u);
}

// Catches: lines that are lost without being counted.
TEST_F(LinesOfPeers, WhatWasSuppressedIsCounted) {
  admitted("a", 7);
  admitted("b", 1005);
  auto log = nextWindow();
  EXPECT_NE(log.find("peer=a count=2"), std::string::npos) << log;
  EXPECT_NE(log.find("peer=b count=1000"), std::string::npos) << log;
  EXPECT_LT(log.find("peer=b"), log.find("peer=a")) << "the largest first";
  EXPECT_EQ(admitted("b", 1), 1u) << "a new window";
  EXPECT_EQ(nextWindow(), "") << "told once";
}

}  // namespace
}  // namespace talos
