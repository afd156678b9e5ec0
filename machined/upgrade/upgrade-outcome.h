// Determines the state of an upgrade when a system starts, from the slot that it runs from, the
// boot loader's environment, and the newest record. Pure.
#pragma once

#include "machined/upgrade/upgrade-record.h"

namespace talos::machined {

enum class UpgradeFinding {
  kNothing,    // nothing is under way
  kOnTrial,    // this is the new system, and it has not been confirmed
  kConfirmed,  // it is confirmed, and the record does not say so yet
  kStaged,     // the other slot has a system that the next reboot tries
  kWaiting,    // the other slot has a system that the next start tries
  kFellBack,   // the other system was tried, and this is the old one again
  kCutOff,     // the new system was never ready to be tried
};
UpgradeFinding findingOf(const kj::Maybe<UpgradeRecord>& record, install::Slot running,
                         const install::SlotState& slots);

// Returns the reason why the old system runs again, as far as known. `trialFailure`: the text that
// the new system has left in META, because it never had the record.
kj::String fallbackReason(const UpgradeRecord& record, kj::Maybe<kj::StringPtr> trialFailure);

}  // namespace talos::machined
