#include "machined/services/service-health.h"

#include <gtest/gtest.h>
#include <kj/string.h>

namespace talos::machined {
namespace {

HealthCheck checkWith(kj::Maybe<kj::Duration> starting) {
  return {.check = []() -> kj::Promise<void> { return kj::READY_NOW; },
          .period = 5 * kj::SECONDS,
          .starting = starting};
}

// Catches: a service that is checked too often for ever, or one that is up and looks unhealthy for
// seconds.
TEST(HealthPace, GrowsByHalfUntilThePeriod) {
  HealthPace pace(checkWith(1 * kj::SECONDS));
  for (int ms : {1000, 1500, 2250, 3375, 5000, 5000}) {
    EXPECT_EQ(ms * kj::MILLISECONDS, pace.next(false));
  }
}

// Catches: a failure after a healthy time that counts as a start.
TEST(HealthPace, IsThePeriodOnceTheServiceWasHealthy) {
  HealthPace pace(checkWith(1 * kj::SECONDS));
  pace.next(false);
  EXPECT_EQ(5 * kj::SECONDS, pace.next(true));
  EXPECT_EQ(5 * kj::SECONDS, pace.next(false));
}

// Catches: a check without a pace for the start that is made faster than its period.
TEST(HealthPace, IsThePeriodWithoutAPaceForTheStart) {
  HealthPace pace(checkWith(nullptr));
  EXPECT_EQ(5 * kj::SECONDS, pace.next(false));
  EXPECT_EQ(5 * kj::SECONDS, pace.next(false));
}

}  // namespace
}  // namespace talos::machined
