// Starts a service again after a failed start that may succeed later (for example because its image
// could not be pulled), with growing pauses. The caller polls again().
#pragma once

#include <kj/timer.h>

#include "common/base/backoff.h"
#include "machined/services/supervisor.h"

namespace talos::machined {

class FailedStart {
 public:
  FailedStart(Supervisor& supervisor, kj::Timer& timer, kj::StringPtr id)
      : supervisor(supervisor), timer(timer), id(id) {}

  // Called while the service is FAILED: starts it at the end of its pause. Returns the time until
  // the next call.
  kj::Duration again() {
    auto now = timer.now();
    KJ_IF_MAYBE (at, retry) {
      if (now < *at) return *at - now;
      retry = nullptr;
      supervisor.start(id);
      return kLook;
    }
    auto pause = backoff.next();
    retry = now + pause;
    return pause;
  }
  void works() { backoff.reset(); }

 private:
  static constexpr auto kLook = 1 * kj::SECONDS;

  Supervisor& supervisor;
  kj::Timer& timer;
  kj::StringPtr id;
  Backoff backoff{{.first = 1 * kj::SECONDS, .longest = 1 * kj::MINUTES}};
  kj::Maybe<kj::TimePoint> retry;
};

}  // namespace talos::machined
