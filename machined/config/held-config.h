// The changes of the config that process 1 holds while they are carried out, or on trial.
#pragma once

#include <kj/array.h>
#include <kj/time.h>

#include "machined/process1/process1.h"
#include "rpc/configuration.capnp.h"

namespace talos::machined {

// A change of the config that has been accepted and is being carried out, as process 1 holds it
// ("config/pending", machined/process1/value-in-memory-file.h): the mode and the whole document.
//
// Process 1 holds the change before the first lasting step and drops it after the last. So a brain
// that finds a change knows that its predecessor crashed in between and repeats all steps; to
// repeat a step changes nothing. A change that is not held has not begun. Mode reboot leaves
// another intention (machined/boot/machine-stage.h, going down), which is held before this change
// is dropped.
//
// A config that is staged while the boot runs leaves a mark ("config/staged") for the rest of the
// boot: a new brain runs that boot again from its start, and must not write the running config over
// the staged one. The mark is held before the disk is written.
constexpr kj::StringPtr kPendingName = "config/pending"_kj;

struct Pending {
  rpc::ApplyMode mode;  // reboot, noReboot or staged
  kj::Array<char> text;
  bool noTrial = false;  // it ends a trial that is running

  Pending(rpc::ApplyMode mode, kj::Array<char> text, bool noTrial = false)
      : mode(mode), text(kj::mv(text)), noTrial(noTrial) {}
  Pending(Pending&&) = default;
  Pending& operator=(Pending&&) = default;
  ~Pending() noexcept(false);  // overwrites the text: it holds secrets
};

// Returns the predecessor's change. Also nullptr if the change cannot be read: then nothing had
// begun.
kj::Maybe<Pending> takePending(Process1& process1);
// Resolves when process 1 holds the change.
kj::Promise<void> holdPending(Process1& process1, const Pending& pending);
kj::Promise<void> dropPending(Process1& process1);

// Returns true if a predecessor held the mark.
bool takeStagedInBoot(Process1& process1);
kj::Promise<void> holdStagedInBoot(Process1& process1);

// A config on trial (mode try), as process 1 holds it ("config/trial",
// machined/process1/value-in-memory-file.h): the document, the previous one, and the deadline.
//
// Process 1 holds the trial before the document is published, and drops it after the previous
// document is published again or another one was applied for good. So a brain that finds a trial
// knows what to run: the document on trial before the deadline, the previous one after it;
// repeating either changes nothing. The trial ends with the boot, as the document does: the disk is
// never written.
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
