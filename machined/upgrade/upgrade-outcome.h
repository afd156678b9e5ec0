// What a system finds when it starts: which slot it runs from, what the boot loader was told, and
// what the newest record says. Pure.
#pragma once

#include "machined/upgrade/upgrade-record.h"

namespace talos::machined {

enum class UpgradeFinding {
  kNothing,    // nothing is under way
  kOnTrial,    // this is the new system, and it has not been confirmed
  kConfirmed,  // it has, and the record does not know yet
  kWaiting,    // the other slot has a system that the next start tries
  kFellBack,   // it was tried, and this is the old one again
  kCutOff,     // it was never ready to be tried
};
UpgradeFinding findingOf(const kj::Maybe<UpgradeRecord>& record, install::Slot running,
                         const install::SlotState& slots);

// Why this is the old system again, as well as anybody knows. `word`: what the new one has left in
// META, because it never had the record.
kj::String whyFellBack(const UpgradeRecord& record, kj::Maybe<kj::StringPtr> word);

}  // namespace talos::machined
