#include "machined/upgrade/upgrade-lifecycle.h"

#include <kj/debug.h>

namespace talos::machined {
namespace {

using Phase = UpgradePhase;
using Stage = UpgradeRecord::Stage;

}  // namespace

UpgradePhase phaseOf(UpgradeRecord::Stage stage, bool staged) {
  switch (stage) {
    case Stage::WRITING:
      return Phase::kWriting;
    case Stage::WRITTEN:
      return staged ? Phase::kStaged : Phase::kArmed;
    case Stage::STARTED:
      return Phase::kTrying;
    case Stage::GIVING_UP:
      return Phase::kGivingUp;
    case Stage::DONE:
      return Phase::kDone;
    case Stage::FAILED:
      return staged ? Phase::kWithdrawn : Phase::kFailed;
  }
  KJ_UNREACHABLE;  // decodeRecord() knows no other stage
}

UpgradePhase phaseOf(const kj::Maybe<UpgradeRecord>& record) {
  KJ_IF_MAYBE (r, record) return phaseOf(r->stage, r->staged);
  return Phase::kNone;
}

bool mayFollow(UpgradePhase from, UpgradePhase to) {
  switch (to) {
    case Phase::kNone:
    case Phase::kWriting:
      return false;
    case Phase::kStaged:
    case Phase::kArmed:
      return from == Phase::kWriting;
    case Phase::kTrying:
      return true;
    case Phase::kGivingUp:
      return from == Phase::kTrying;
    case Phase::kDone:
      return from == Phase::kStaged || from == Phase::kArmed || from == Phase::kTrying ||
             from == Phase::kGivingUp;
    case Phase::kFailed:
      return from == Phase::kWriting || mayFollow(from, Phase::kDone);
    case Phase::kWithdrawn:
      return from == Phase::kStaged;
  }
  KJ_UNREACHABLE;
}

UpgradeFinding findingOf(const kj::Maybe<UpgradeRecord>& record, install::Slot running,
                         const install::SlotState& slots, bool entered) {
  KJ_IF_MAYBE (attempt, slots.attempt) {
    if (*attempt == running && slots.confirmed != running) return UpgradeFinding::kOnTrial;
    if (*attempt != running && slots.confirmed == running) {
      return slots.tries > 0 ? UpgradeFinding::kWaiting : UpgradeFinding::kFellBack;
    }
  }
  if (entered && slots.confirmed != running) return UpgradeFinding::kOnTrial;
  KJ_IF_MAYBE (r, record) {
    if (r->isOver() || slots.confirmed != running) return UpgradeFinding::kNothing;
    if (r->live && r->to != running && r->stage != Stage::WRITING) return UpgradeFinding::kFellBack;
    if (r->isStaged() && r->to != running) return UpgradeFinding::kStaged;
    bool ran = r->stage != Stage::WRITING;
    return r->to == running && ran ? UpgradeFinding::kConfirmed : UpgradeFinding::kCutOff;
  }
  return UpgradeFinding::kNothing;
}

kj::String fallbackReason(const UpgradeRecord& record, kj::Maybe<kj::StringPtr> trialFailure) {
  auto name =
      kj::str("the system in slot ", install::nameOf(record.to), " (", record.toVersion, ")");
  switch (record.stage) {
    case Stage::GIVING_UP:
      return kj::str(name, " was given up: ", record.reason);
    case Stage::STARTED:
      return kj::str(name, " was started and ended before it was healthy",
                     record.reason.size() > 0 ? "; its last problem: " : "", record.reason);
    default:
      if (record.live) {
        return kj::str(name, " did not take over: machined or the machine ended before its ",
                       "machined ran");
      }
      KJ_IF_MAYBE (text, trialFailure) return kj::str(name, " was given up: ", *text);
      return kj::str(name,
                     " did not come up: the boot loader could not load it, or it ended before its "
                     "machined ran; its last messages are on the console");
  }
}

UpgradeRecord recordOnTrial(kj::Maybe<UpgradeRecord> found, install::Slot running,
                            install::Slot confirmed, kj::StringPtr version, bool entered) {
  UpgradeRecord result{.from = confirmed, .to = running};
  KJ_IF_MAYBE (r, found) {
    if (r->to == running) {
      result = kj::mv(*r);
    } else {
      result.emptying = r->emptying;
    }
  }
  bool continues = result.stage == Stage::STARTED || result.stage == Stage::WRITTEN;
  if (!continues) result.empty = false;
  result.stage = Stage::STARTED;
  result.staged = false;
  result.live = entered;
  if (result.toVersion.size() == 0) result.toVersion = kj::str(version);
  return result;
}

}  // namespace talos::machined
