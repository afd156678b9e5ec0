#include "machined/upgrade/upgrade-status.h"

#include <kj/debug.h>

#include "common/base/date.h"

namespace talos::machined {
namespace {

using Activity = UpgradeActivity;
using Phase = UpgradePhase;

void fillFromRecord(rpc::UpgradeStatusSpec::Builder spec, const UpgradeProgress& progress,
                    const UpgradeRecord& record) {
  spec.setImage(record.image);
  spec.setDigest(record.digest);
  spec.setTarget(record.target());
  spec.setBegan(dateText(record.began));
  if (record.isStaged() && progress.activity() != Activity::kRebooting) {
    spec.setReason(stagedReason(record));
  } else {
    spec.setReason(progress.text().size() > 0 ? progress.text() : record.reason.asPtr());
  }
}

}  // namespace

kj::String stagedReason(const UpgradeRecord& record) {
  return kj::str(record.toVersion, ", tried at the next reboot",
                 record.reason.size() > 0 ? "; " : "", record.reason);
}

kj::StringPtr stageName(const UpgradeProgress& progress, UpgradePhase phase, bool live) {
  if (progress.activity() == Activity::kFetching) return "fetching";
  if (progress.activity() == Activity::kWriting) return "writing";
  if (progress.awaited != nullptr) return "waiting";
  switch (phase) {
    case Phase::kNone:
      return "none";
    case Phase::kWriting:
      return "writing";
    case Phase::kStaged:
      return progress.activity() == Activity::kRebooting ? "rebooting" : "staged";
    case Phase::kArmed:
    case Phase::kGivingUp:
      return live ? "switching" : "rebooting";
    case Phase::kTrying:
      return "trying";
    case Phase::kDone:
      return "done";
    case Phase::kFailed:
      return "failed";
    case Phase::kWithdrawn:
      return "withdrawn";
  }
  KJ_UNREACHABLE;
}

void fillStatus(rpc::UpgradeStatusSpec::Builder spec, const UpgradeProgress& progress,
                const kj::Maybe<UpgradeRecord>& record) {
  bool live = record.map([](auto& r) { return r.live; }).orDefault(false);
  spec.setStage(stageName(progress, phaseOf(record), live));
  spec.setCanStage(true);
  if (progress.activity() == Activity::kFetching) {
    spec.setImage(progress.image());
    spec.setReason(progress.text());
  } else KJ_IF_MAYBE (awaited, progress.awaited) {
    spec.setImage(awaited->image);
    spec.setReason(awaited->reason);
  } else KJ_IF_MAYBE (r, record) {
    fillFromRecord(spec, progress, *r);
  }
}

}  // namespace talos::machined
