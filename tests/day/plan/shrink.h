// Shrinks the day of a failure: finds few of its operations that fail as well, by replays.
#pragma once

#include <functional>

#include "tests/day/plan/day.h"

namespace talos::day {

struct Shrunk {
  Day day;                // the smallest day that failed
  unsigned replays = 0;   // that were made
  bool repeats = false;   // the whole day failed again
  bool finished = false;  // no half, and no single operation, can be left out
};

// Bisects the operations of `failing` with at most so many calls of `fails`, which replays a day
// and returns whether it fails. Faults in containers do not repeat exactly, so the whole day is
// replayed first; if that passes, nothing is left out.
Shrunk shrink(const Day& failing, unsigned replays, const std::function<bool(const Day&)>& fails);

}  // namespace talos::day
