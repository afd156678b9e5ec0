#include "machined/upgrade/upgrade-outcome.h"

namespace talos::machined {

UpgradeFinding findingOf(const kj::Maybe<UpgradeRecord>& record, install::Slot running,
                         const install::SlotState& slots) {
  KJ_IF_MAYBE (attempt, slots.attempt) {
    if (*attempt == running && slots.confirmed != running) return UpgradeFinding::kOnTrial;
    if (*attempt != running && slots.confirmed == running) {
      return slots.tries > 0 ? UpgradeFinding::kWaiting : UpgradeFinding::kFellBack;
    }
  }
  KJ_IF_MAYBE (r, record) {
    if (r->isOver() || slots.confirmed != running) return UpgradeFinding::kNothing;
    if (r->isStaged() && r->to != running) return UpgradeFinding::kStaged;
    bool ran = r->stage != UpgradeRecord::Stage::WRITING;
    return r->to == running && ran ? UpgradeFinding::kConfirmed : UpgradeFinding::kCutOff;
  }
  return UpgradeFinding::kNothing;
}

kj::String fallbackReason(const UpgradeRecord& record, kj::Maybe<kj::StringPtr> trialFailure) {
  auto name =
      kj::str("the system in slot ", install::nameOf(record.to), " (", record.toVersion, ")");
  switch (record.stage) {
    case UpgradeRecord::Stage::GIVING_UP:
      return kj::str(name, " was given up: ", record.reason);
    case UpgradeRecord::Stage::STARTED:
      return kj::str(name, " was started and ended before it was healthy",
                     record.reason.size() > 0 ? "; its last problem: " : "", record.reason);
    default:
      KJ_IF_MAYBE (text, trialFailure) return kj::str(name, " was given up: ", *text);
      return kj::str(name,
                     " did not come up: the boot loader could not load it, or it ended before its "
                     "machined ran; its last messages are on the console");
  }
}

}  // namespace talos::machined
