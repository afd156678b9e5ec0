// Pauses and deadlines of networkd's loops.
#pragma once

#include <kj/timer.h>

#include "common/base/backoff.h"

namespace talos::networkd {

// Pause after a change of the kernel, so that a storm of changes is read in batches; the first
// change is read at once.
constexpr kj::Duration kKernelPause = 20 * kj::MILLISECONDS;
// Deadline of one write to the store.
constexpr kj::Duration kPublishDeadline = 10 * kj::SECONDS;

// The time of the next check of a reconciler: when its inputs change, or besides after a pause, or
// soon, after a pause that grows with each failure.
enum class NextCheck { kAtChange, kSoon, kAfterPause };

class CheckPace {
 public:
  CheckPace(kj::Timer& timer, kj::Duration first, kj::Duration pause)
      : timer(timer), pause(pause), backoff({first, pause}) {}

  // Resolves when the next check is due.
  kj::Promise<void> due(NextCheck next, kj::Promise<void> change) {
    if (next == NextCheck::kSoon) {
      return change.exclusiveJoin(timer.afterDelay(backoff.next()));
    }
    backoff.reset();
    if (next == NextCheck::kAtChange) return change;
    return change.exclusiveJoin(timer.afterDelay(pause));
  }

 private:
  kj::Timer& timer;
  kj::Duration pause;
  Backoff backoff;
};

}  // namespace talos::networkd
