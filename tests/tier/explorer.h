// Plays many schedules, and makes a failing one small.
#pragma once

#include "tests/tier/tier.h"

namespace talos::tier {

struct Found {
  uint64_t schedules = 0, events = 0, writes = 0;
  uint64_t probes[kProbes] = {};
  uint64_t virtualSeconds = 0;
  std::set<uint64_t> states;
  std::string violation;  // of the first schedule that failed; empty: none failed
  uint64_t seed = 0;      // of this schedule
};

class Explorer {
 public:
  Explorer();
  KJ_DISALLOW_COPY_AND_MOVE(Explorer);

  Outcome play(const Schedule& schedule, PlayOptions options = {});
  // Plays the schedules of `count` numbers from `from` on, up to the first violation. Calls
  // `progressed` after each.
  Found explore(
      uint64_t from, uint64_t count, const Mistakes& mistakes = {},
      kj::Function<void(const Found&)> progressed = [](const Found&) {});
  // Returns the numbers of few events that fail in the same way.
  std::set<unsigned> shrink(const Schedule& schedule, const Mistakes& mistakes = {});
  // Returns the violation, the schedule of few events, their story, and the command that plays it
  // again.
  std::string report(uint64_t seed, const Mistakes& mistakes = {});

 private:
  Stores stores;
};

}  // namespace talos::tier
