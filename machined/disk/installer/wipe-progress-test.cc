#include "machined/disk/installer/wipe-progress.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace talos::install {
namespace {

struct TestClock final : kj::MonotonicClock {
  kj::TimePoint time = kj::origin<kj::TimePoint>();
  kj::TimePoint now() const override { return time; }
};

struct Wipe {
  std::vector<std::string> lines;
  kj::Duration longest = 0 * kj::SECONDS;  // between two lines

  Wipe(uint64_t bytes, uint64_t step, kj::Duration each) {
    TestClock clock;
    WipeProgress progress(bytes, clock);
    auto last = clock.time;
    for (uint64_t done = 0; done < bytes;) {
      done = kj::min(done + step, bytes);
      clock.time += each;
      KJ_IF_MAYBE (line, progress.at(done)) {
        lines.push_back(line->cStr());
        longest = kj::max(longest, clock.time - last);
        last = clock.time;
      }
    }
  }
};

}  // namespace

// Catches: a large disk whose wipe is ended because it reports nothing for 10 minutes, and is
// started again at each boot.
TEST(WipeProgress, ALargeDiskIsNeverSilentForLong) {
  Wipe wipe(16'000'900'661'248, 256u << 20, 2 * kj::SECONDS);
  EXPECT_LE(wipe.longest / kj::SECONDS, 120);
  ASSERT_GE(wipe.lines.size(), 2u);
  EXPECT_EQ(wipe.lines.front(), "7 of 14902 GiB");
  EXPECT_EQ(wipe.lines.back(), "100 %");
}

// Catches: a line for each part of a fast disk.
TEST(WipeProgress, ASmallDiskSaysItsTenths) {
  Wipe wipe(8ull << 30, 256u << 20, 100 * kj::MILLISECONDS);
  EXPECT_EQ(wipe.lines, (std::vector<std::string>{"10 %", "20 %", "30 %", "40 %", "50 %", "60 %",
                                                  "70 %", "80 %", "90 %", "100 %"}));
}

}  // namespace talos::install
