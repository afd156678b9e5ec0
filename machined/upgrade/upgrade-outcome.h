// The state of an upgrade when a system starts, from the slot that it runs from, the boot loader's
// environment, and the newest record. Pure.
#pragma once

#include "machined/upgrade/upgrade-record.h"

namespace talos::machined {

enum class UpgradeFinding {
  kNothing,    // nothing is under way
  kOnTrial,    // this is the new system, and it has not been confirmed
  kConfirmed,  // it has, and the record does not know yet
  kStaged,     // the other slot has a system that the next reboot is to try
  kWaiting,    // the other slot has a system that the next start tries
  kFellBack,   // it was tried, and this is the old one again
  kCutOff,     // it was never ready to be tried
};
UpgradeFinding findingOf(const kj::Maybe<UpgradeRecord>& record, install::Slot running,
                         const install::SlotState& slots);

// The reason why the old system runs again, as far as known. `trialFailure`: the text that the new
// one has left in META, because it never had the record.
kj::String fallbackReason(const UpgradeRecord& record, kj::Maybe<kj::StringPtr> trialFailure);

}  // namespace talos::machined
