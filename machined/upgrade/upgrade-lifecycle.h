// The life of an upgrade as pure functions: the phase of a record and the phases that may follow
// it, and the conclusion that a system draws at its start from the slot that it runs from, the
// state of the boot loader, and the newest record.
//
// The boot loader's state outranks the record. It decides which system is started; the record only
// explains why, and may be lost or belong to another upgrade.
#pragma once

#include "machined/upgrade/upgrade-record.h"

namespace talos::machined {

// The phase of the newest record, which outlives this brain. A new upgrade begins in kWriting and a
// rollback in kArmed, after any phase. kTrying, too, may follow any phase, because the boot loader
// starts a system regardless of the record.
enum class UpgradePhase {
  kNone,       // there is no record
  kWriting,    // the other slot is being written. Next: kStaged, kArmed, kFailed
  kStaged,     // the next reboot tries the other slot. Next: kWithdrawn, kDone, kFailed
  kArmed,      // the next start tries the other slot. Next: kDone, kFailed
  kTrying,     // the new system runs on trial. Next: kGivingUp, kDone, kFailed
  kGivingUp,   // the new system ends its trial and reboots. Next: kDone, kFailed
  kDone,       // the new system is confirmed
  kFailed,     // the old system runs
  kWithdrawn,  // a rollback has ended a staged upgrade
};
constexpr size_t kUpgradePhases = 9;

UpgradePhase phaseOf(UpgradeRecord::Stage stage, bool staged);
UpgradePhase phaseOf(const kj::Maybe<UpgradeRecord>& record);
// Returns true if a record in the phase `from` may be changed to `to`, as listed above. A new
// record is not a change.
bool mayFollow(UpgradePhase from, UpgradePhase to);

// The work of this brain, which a crash ends. One kind of work excludes all others, so an upgrade
// or a rollback begins only in kIdle. Only kRebooting may replace other work, because a reboot that
// was requested meanwhile does not wait.
enum class UpgradeActivity {
  kIdle,       // Next: kFetching, kChoosing, kRebooting
  kFetching,   // gets and verifies an image for a caller. Next: kWriting, kIdle, kRebooting
  kWriting,    // carries out a plan. Next: kIdle, kRebooting
  kChoosing,   // rolls back, or withdraws a staged system. Next: kIdle, kRebooting
  kRebooting,  // into the other slot
};

// The conclusion at the start of a system.
enum class UpgradeFinding {
  kNothing,    // nothing is under way
  kOnTrial,    // this is the new system, and it has not been confirmed
  kConfirmed,  // it is confirmed, and the record does not say so yet
  kStaged,     // the other slot has a system that the next reboot tries
  kWaiting,    // the other slot has a system that the next start tries
  kFellBack,   // the other system was tried, and this is the old one again
  kCutOff,     // the new system was never ready to be tried
};
// `entered`: the running system took over from another one since the boot, without a reboot. Then
// the boot loader does not know of its trial: it has another confirmed slot, and none to try.
UpgradeFinding findingOf(const kj::Maybe<UpgradeRecord>& record, install::Slot running,
                         const install::SlotState& slots, bool entered = false);

// Returns the reason why the old system runs again, as far as known. `trialFailure`: the text that
// the new system has left in META, because it never had the record.
kj::String fallbackReason(const UpgradeRecord& record, kj::Maybe<kj::StringPtr> trialFailure);

// Returns the record of the system of this version that runs on trial, in kTrying. Continues
// `found` if it is of this trial; keeps of any other only that EPHEMERAL is half emptied. The new
// system may empty EPHEMERAL only if the old one had armed it without reporting an error.
UpgradeRecord recordOnTrial(kj::Maybe<UpgradeRecord> found, install::Slot running,
                            install::Slot confirmed, kj::StringPtr version, bool entered = false);

}  // namespace talos::machined
