#include "trustd/request-throttle.h"

#include <gtest/gtest.h>

#include "common/testing/test-ip.h"

namespace talos::trustd {
namespace {

const kj::TimePoint kStart = kj::origin<kj::TimePoint>() + 1 * kj::HOURS;

TEST(Throttle, EachFailureDoublesTheWaitUpToItsLimit) {
  Throttle throttle;
  auto now = kStart;
  EXPECT_EQ(throttle.wait(ip("10.0.0.9"), now) / kj::MILLISECONDS, 0);
  int64_t expected[] = {500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
  for (auto milliseconds : expected) {
    throttle.failed(ip("10.0.0.9"), now);
    EXPECT_EQ(throttle.wait(ip("10.0.0.9"), now) / kj::MILLISECONDS, milliseconds);
    now += milliseconds * kj::MILLISECONDS;
    EXPECT_EQ(throttle.wait(ip("10.0.0.9"), now) / kj::MILLISECONDS, 0);
  }
  EXPECT_EQ(throttle.wait(ip("10.0.0.10"), kStart) / kj::MILLISECONDS, 0) << "others wait too";
}

TEST(Throttle, SuccessAndTimeMakeGood) {
  Throttle throttle;
  for (int i = 0; i < 5; ++i) throttle.failed(ip("10.0.0.9"), kStart);
  throttle.succeeded(ip("10.0.0.9"));
  EXPECT_EQ(throttle.wait(ip("10.0.0.9"), kStart) / kj::MILLISECONDS, 0);
  for (int i = 0; i < 5; ++i) throttle.failed(ip("10.0.0.9"), kStart);
  auto later = kStart + 11 * kj::MINUTES;
  throttle.failed(ip("10.0.0.9"), later);
  EXPECT_EQ(throttle.wait(ip("10.0.0.9"), later) / kj::MILLISECONDS, 500);
}

// Catches: an attacker that has all addresses of a subnet, or fills the memory with them.
TEST(Throttle, CountsIpv6BySubnetAndIsBounded) {
  Throttle throttle(2);
  throttle.failed(ip("fd00::1"), kStart);
  throttle.failed(ip("fd00::2"), kStart);
  EXPECT_EQ(throttle.wait(ip("fd00::3"), kStart) / kj::MILLISECONDS, 1000);
  throttle.failed(ip("10.0.0.1"), kStart + 1 * kj::SECONDS);
  throttle.failed(ip("10.0.0.2"), kStart + 2 * kj::SECONDS);
  EXPECT_EQ(throttle.size(), 2u);
  EXPECT_EQ(throttle.wait(ip("fd00::1"), kStart) / kj::MILLISECONDS, 0) << "the oldest stays";
}

}  // namespace
}  // namespace talos::trustd
