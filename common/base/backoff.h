// How long to wait before a new attempt at what has failed: longer after each failure up to a
// longest pause, from the beginning again after a success.
//
// Pure: it answers durations and waits for nothing. Chance is passed in with each question, so
// tests own it as they own the clock. It holds two numbers that matter to nobody after a crash.
#pragma once

#include <kj/common.h>
#include <kj/time.h>

namespace talos {

class Backoff {
 public:
  struct Pace {
    kj::Duration first, longest;
    double growth = 2;  // of the pause, from failure to failure; more than 1
    // The parts of a pause that chance chooses between, at 0 and at 1: {0.5, 1.5} is +-50 %. The
    // longest pause is spread as well, so that those who wait for one thing do not come all at
    // once.
    double chance0 = 1, chance1 = 1;
  };

  constexpr explicit Backoff(Pace pace) : pace(pace) {}

  // The pause after one more failure. `chance` is in [0, 1).
  kj::Duration next(double chance = 0) {
    auto pause = double(pace.first / kj::NANOSECONDS);
    auto longest = double(pace.longest / kj::NANOSECONDS);
    for (unsigned i = 0; i < count && pause < longest; ++i) pause *= pace.growth;
    ++count;
    pause = kj::min(pause, longest) * (pace.chance0 + (pace.chance1 - pace.chance0) * chance);
    return static_cast<int64_t>(pause) * kj::NANOSECONDS;
  }
  void reset() { count = 0; }
  // In a row.
  unsigned failures() const { return count; }

 private:
  Pace pace;
  unsigned count = 0;
};

}  // namespace talos
