#include "machined/services/service-health.h"

#include "common/base/error.h"
#include "common/base/within.h"

namespace talos::machined {

kj::Promise<kj::Maybe<kj::String>> checkOnce(HealthCheck& health, kj::Timer& timer) {
  using Problem = kj::Maybe<kj::String>;
  auto late = kj::str("no answer within ", health.timeout / kj::MILLISECONDS, " ms");
  return within(timer, health.timeout, kj::evalNow([&]() { return health.check(); }), kj::mv(late))
      .then([]() -> Problem { return nullptr; },
            [](kj::Exception&& e) -> Problem { return messageOf(e); });
}

HealthPace::HealthPace(const HealthCheck& check)
    : period(check.period),
      retry(
          {.first = check.retry.orDefault(check.period), .longest = check.period, .growth = 1.5}) {}

kj::Duration HealthPace::next(bool healthy) {
  if (!healthy) return retry.next();
  retry.reset();
  return period;
}

}  // namespace talos::machined
