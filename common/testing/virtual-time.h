// A test's own clock, moved on as a real one would.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

namespace talos {

// Lets `by` pass: each timer fires at its own moment, and what it starts may set timers that fall
// into the same span.
inline void advance(kj::TimerImpl& timer, kj::WaitScope& scope, kj::Duration by) {
  auto end = timer.now() + by;
  scope.poll();
  for (;;) {
    auto next = timer.nextEvent().orDefault(end);
    if (next >= end) break;
    timer.advanceTo(next);
    scope.poll();
  }
  timer.advanceTo(end);
  scope.poll();
}

}  // namespace talos
