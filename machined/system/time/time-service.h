// The service `timed`: a part of machined that exists as long as the config enables timekeeping. It
// is healthy from the first trusted answer.
#pragma once

#include "machined/services/supervisor.h"
#include "machined/system/time/time-follower.h"

namespace talos::machined {

constexpr kj::StringPtr kTimed = "timed"_kj;

class TimeService {
 public:
  // The supervisor may not exist yet, and ends before this object, because it holds the running
  // service.
  TimeService(Supervisor& supervisor, TimeFollower::Dependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(TimeService);

  // Follows these servers immediately, in any state. `servers` is not empty.
  void enable(kj::Array<kj::String> servers);
  // Limits the wait of other services for this one; 0: the default of services.
  void setBootTimeout(kj::Duration timeout) { bootTimeout = timeout; }
  // Returns how long a service waits for this one before its first start.
  kj::Duration awaitedAtMost() const;
  void disable(kj::StringPtr problem);

  const TimeState& state() const { return follower.state(); }
  // Calls TimeFollower::check().
  kj::Promise<TimeFollower::Answer> check(kj::String server);

 private:
  Supervisor& supervisor;
  kj::Timer& timer;
  TimeFollower follower;
  bool loaded = false, wasUnloaded = false;
  kj::Duration bootTimeout = 0 * kj::SECONDS;

  ServiceDefinition definition();
  kj::Promise<void> health();
};

}  // namespace talos::machined
