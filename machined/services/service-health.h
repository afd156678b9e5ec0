// The health checks of a service: one check, and the pauses between the checks. ServiceActions runs
// them while the service runs; ServiceStatus has the results.
#pragma once

#include "common/base/backoff.h"
#include "machined/services/supervisor.h"

namespace talos::machined {

// Runs the check once, with the check's timeout. Returns nullptr if the service is healthy;
// otherwise the problem. Never rejects.
kj::Promise<kj::Maybe<kj::String>> checkOnce(HealthCheck& health, kj::Timer& timer);

// The pauses between the checks of one run of a service: the period after a good check, growing
// ones up to the period after bad checks in a row. Pure.
class HealthPace {
 public:
  explicit HealthPace(const HealthCheck& check);
  // Returns the pause after a check with this result.
  kj::Duration next(bool healthy);

 private:
  kj::Duration period;
  Backoff retry;
};

}  // namespace talos::machined
