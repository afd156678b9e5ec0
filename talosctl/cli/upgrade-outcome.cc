#include "talosctl/cli/upgrade-outcome.h"

namespace talos::talosctl {

Judgement judgeUpgrade(kj::StringPtr before, kj::StringPtr bootId,
                       rpc::UpgradeStatusSpec::Reader status) {
  auto stage = status.getStage();
  auto running = kj::str("slot ", status.getSlot(), " (", status.getVersion(), ")");
  if (stage == "failed") {
    return {
        Verdict::kFailed,
        kj::str(status.getReason(), bootId == before ? "; still running " : "; back on ", running)};
  }
  if (stage == "withdrawn") return {Verdict::kFailed, kj::str(status.getReason())};
  if (stage == "staged") {
    return {Verdict::kDone, kj::str("staged: ", status.getReason(), "; running ", running)};
  }
  if (stage == "done" && bootId != before && status.getReason().size() > 0) {
    return {Verdict::kDone, kj::str("running ", running, ", ", status.getReason())};
  }
  if (stage == "done" && bootId != before) {
    return {Verdict::kDone, kj::str("running ", running, ", healthy and confirmed")};
  }
  if (stage == "trying") {
    return {Verdict::kWait, kj::str("trying ", running, status.getReason().size() > 0 ? ": " : "",
                                    status.getReason())};
  }
  if (stage == "fetching") return {Verdict::kWait, kj::str("fetching ", status.getImage())};
  if (stage == "writing")
    return {Verdict::kWait, status.getReason().size() > 0 ? kj::str(status.getReason())
                                                          : kj::str("writing to the other slot")};
  if (bootId != before) return {Verdict::kWait, kj::str("booting ", running)};
  return {Verdict::kWait, kj::str("rebooting")};
}

}  // namespace talos::talosctl
