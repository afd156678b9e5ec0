// A config on trial (mode try), as process 1 holds it ("config/trial",
// machined/process1/value-in-memory-file.h): the document, the previous one, and the deadline.
//
// Process 1 holds the trial before the document is published, and drops it after the previous
// document is published again or another one was applied for good. So a brain that finds a trial
// knows what to run: the document on trial before the deadline, the previous one after it;
// repeating either changes nothing. The trial ends with the boot, as the document does: the disk is
// never written.
#pragma once

#include <kj/array.h>
#include <kj/time.h>

#include "machined/process1/process1.h"

namespace talos::machined {

constexpr kj::StringPtr kTrialName = "config/trial"_kj;
constexpr auto kShortestTrial = 1 * kj::SECONDS, kLongestTrial = 24 * kj::HOURS;

struct Trial {
  // Deadline by CLOCK_MONOTONIC, which is never stepped and which all brains of a boot share.
  kj::TimePoint deadline;
  kj::Array<char> before, tried;

  Trial(kj::TimePoint deadline, kj::Array<char> before, kj::Array<char> tried)
      : deadline(deadline), before(kj::mv(before)), tried(kj::mv(tried)) {}
  Trial(Trial&&) = default;
  Trial& operator=(Trial&&) = default;
  ~Trial() noexcept(false);  // overwrites the documents: they hold secrets
};

// Returns the predecessor's trial. Also nullptr if the trial cannot be read: then no brain has held
// it.
kj::Maybe<Trial> takeTrial(Process1& process1);
// Resolves when process 1 holds the trial; it replaces an earlier one.
kj::Promise<void> holdTrial(Process1& process1, const Trial& trial);
kj::Promise<void> dropTrial(Process1& process1);

}  // namespace talos::machined
