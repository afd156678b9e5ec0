// A config that is being tried (mode try), as process 1 holds it ("config/trial",
// machined/process1/held.h): the document that is on trial, the one that it takes the place of, and
// until when.
//
// It is held before the tried document is published and dropped after the one of before is back, or
// after another one has been made to stay. So a brain that finds one knows what is to run: before
// the deadline what is on trial, after it what was before; both come to the same end when they are
// done twice. It goes with the boot, as the tried document does: disk is never touched.
#pragma once

#include <kj/array.h>
#include <kj/time.h>

#include "machined/process1/process1.h"

namespace talos::machined {

constexpr kj::StringPtr kTrialName = "config/trial"_kj;
constexpr auto kShortestTrial = 1 * kj::SECONDS, kLongestTrial = 24 * kj::HOURS;

struct Trial {
  // Of the clock that counts from the start of the machine (CLOCK_MONOTONIC), which nobody steps
  // and which all brains of a boot share.
  kj::TimePoint deadline;
  kj::Array<char> before, tried;

  Trial(kj::TimePoint deadline, kj::Array<char> before, kj::Array<char> tried)
      : deadline(deadline), before(kj::mv(before)), tried(kj::mv(tried)) {}
  Trial(Trial&&) = default;
  Trial& operator=(Trial&&) = default;
  ~Trial() noexcept(false);  // overwrites the documents: they hold secrets
};

// What the predecessor left. None also when it cannot be read: it was not held by a brain then.
kj::Maybe<Trial> takeTrial(Process1& process1);
// Resolves when process 1 has it, instead of an earlier one.
kj::Promise<void> holdTrial(Process1& process1, const Trial& trial);
kj::Promise<void> dropTrial(Process1& process1);

}  // namespace talos::machined
