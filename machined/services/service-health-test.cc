#include "machined/services/service-health.h"

#include <gtest/gtest.h>
#include <kj/string.h>

namespace talos::machined {
namespace {

HealthCheck checkWith(kj::Maybe<kj::Duration> retry) {
  return {.check = []() -> kj::Promise<void> { return kj::READY_NOW; },
          .period = 5 * kj::SECONDS,
          .retry = retry};
}

// Catches: a service that is checked too often for ever, or one that is up and looks unhealthy for
// seconds.
TEST(HealthPace, GrowsByHalfAfterBadChecksUntilThePeriod) {
  HealthPace pace(checkWith(1 * kj::SECONDS));
  for (int ms : {1000, 1500, 2250, 3375, 5000, 5000}) {
    EXPECT_EQ(ms * kj::MILLISECONDS, pace.next(false));
  }
}

// Catches: one bad check of a healthy service that makes it unhealthy for a whole period (nodes
// with etcd that met an election stayed out of the election of a shared address for 5 s); a good
// check that does not reset the pauses.
TEST(HealthPace, IsThePeriodAfterAGoodCheckAndShortAfterABadOne) {
  HealthPace pace(checkWith(1 * kj::SECONDS));
  EXPECT_EQ(1000 * kj::MILLISECONDS, pace.next(false));
  EXPECT_EQ(1500 * kj::MILLISECONDS, pace.next(false));
  EXPECT_EQ(5 * kj::SECONDS, pace.next(true));
  EXPECT_EQ(1000 * kj::MILLISECONDS, pace.next(false));
}

// Catches: a check without a pause for retries that is made faster than its period.
TEST(HealthPace, IsThePeriodWithoutAPauseForRetries) {
  HealthPace pace(checkWith(nullptr));
  EXPECT_EQ(5 * kj::SECONDS, pace.next(false));
  EXPECT_EQ(5 * kj::SECONDS, pace.next(false));
}

}  // namespace
}  // namespace talos::machined
