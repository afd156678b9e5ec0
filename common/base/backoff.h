// Exponential backoff: the pause before the next attempt grows with each failure up to a longest
// pause, and is reset by a success.
//
// Pure: it returns durations and does not wait. The caller passes randomness with each call, so
// that tests control it like the clock. Its state may be lost in a crash.
#pragma once

#include <kj/common.h>
#include <kj/time.h>

namespace talos {

class Backoff {
 public:
  struct Pace {
    kj::Duration first, longest;
    double growth = 2;  // factor from one pause to the next; more than 1
    // Jitter: the factors of a pause for chance 0 and 1: {0.5, 1.5} is +-50 %. It also applies to
    // the longest pause, so that clients that wait for one server do not all retry at once.
    double chance0 = 1, chance1 = 1;
  };

  constexpr explicit Backoff(Pace pace) : pace(pace) {}

  // Returns the pause after one more failure. `chance` is in [0, 1).
  kj::Duration next(double chance = 0) {
    auto pause = double(pace.first / kj::NANOSECONDS);
    auto longest = double(pace.longest / kj::NANOSECONDS);
    for (unsigned i = 0; i < count && pause < longest; ++i) pause *= pace.growth;
    ++count;
    pause = kj::min(pause, longest) * (pace.chance0 + (pace.chance1 - pace.chance0) * chance);
    return static_cast<int64_t>(pause) * kj::NANOSECONDS;
  }
  void reset() { count = 0; }
  // Returns the number of consecutive failures.
  unsigned failures() const { return count; }

 private:
  Pace pace;
  unsigned count = 0;
};

}  // namespace talos
