// Waits of a rollout for states of the cluster. Each reason for a wait is printed once, in the form
// of Talos' log.
#pragma once

#include "talosctl/rollout/attempts.h"
#include "talosctl/rollout/rollout-lines.h"

namespace talos::talosctl {

struct WaitTimes {
  kj::Duration limit, interval = 1 * kj::SECONDS;
};

class StateWaits {
 public:
  // All arguments must outlive this object.
  StateWaits(kj::Timer& timer, const kj::Clock& clock, RolloutLines& lines)
      : timer(timer), clock(clock), lines(lines) {}

  // Repeats `attempt` until it reaches the state. A rejection with InvalidArgument,
  // PermissionDenied, Unauthenticated, Unimplemented or FailedPrecondition is final; after any
  // other the attempt is repeated. DeadlineExceeded with the last reason. `what` follows "waiting
  // for".
  kj::Promise<void> until(kj::String what, WaitTimes times, Attempt attempt);
  // Repeats `action` in the same way until it succeeds.
  kj::Promise<void> untilDone(kj::String what, WaitTimes times,
                              kj::Function<kj::Promise<void>()> action);

 private:
  kj::Timer& timer;
  const kj::Clock& clock;
  RolloutLines& lines;

  // Prints "2021/03/09 19:55:01 retrying error: …".
  void printRetry(kj::StringPtr reason);
};

}  // namespace talos::talosctl
