#include "machined/logs/log-since.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <stdint.h>

namespace talos::machined {
namespace {

// 1000 s after the boot it is 5000 s after 1970.
constexpr auto kMoment = 1000 * kj::SECONDS, kWall = 5000 * kj::SECONDS;

struct LogSinceTest : testing::Test {
  ~LogSinceTest() noexcept override {}
  capnp::MallocMessageBuilder message;
  rpc::LogSince::Builder since = message.initRoot<rpc::LogSince>();

  // Returns the seconds of both clocks; -1: all.
  std::pair<int64_t, int64_t> seconds() {
    auto origin = kj::origin<kj::TimePoint>();
    auto now = kj::UNIX_EPOCH + kWall;
    int64_t moment = -1, date = -1;
    KJ_IF_MAYBE (m, momentOf(since, origin + kMoment, now)) moment = (*m - origin) / kj::SECONDS;
    KJ_IF_MAYBE (d, dateOf(since, now)) date = (*d - kj::UNIX_EPOCH) / kj::SECONDS;
    return {moment, date};
  }
  using Both = std::pair<int64_t, int64_t>;
};

// Catches: an age by the wrong clock, a time from before the boot that counts as the future.
TEST_F(LogSinceTest, AgesAndTimesByBothClocks) {
  EXPECT_EQ(seconds(), Both(-1, -1));
  since.setAge(60'000);
  EXPECT_EQ(seconds(), Both(940, 4940));
  since.setAge(2'000'000);
  EXPECT_EQ(seconds(), Both(0, 3000));
  since.setTime(4'990'000'000'000);
  EXPECT_EQ(seconds(), Both(990, 4990));
  since.setTime(0);
  EXPECT_EQ(seconds(), Both(0, 0));
  since.setTime(6'000'000'000'000);
  EXPECT_EQ(seconds(), Both(2000, 6000));
}

// Catches: a client's number that overflows into another time.
TEST_F(LogSinceTest, AnyNumberIsATimeOrAll) {
  since.setAge(UINT64_MAX);
  EXPECT_EQ(seconds(), Both(-1, -1));
  since.setAge(INT64_MAX / 1'000'000);
  EXPECT_EQ(seconds().first, 0);
  since.setTime(INT64_MIN);
  EXPECT_EQ(seconds(), Both(-1, -1));
  since.setTime(INT64_MIN + 5'000'000'000'001);
  EXPECT_EQ(seconds().first, 0);
  since.setTime(INT64_MAX);
  EXPECT_GT(seconds().first, 9'000'000'000);
}

}  // namespace
}  // namespace talos::machined
