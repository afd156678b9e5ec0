#include "machined/config/apply-decision.h"

#include "common/base/error.h"

namespace talos::machined {
namespace {

// The paths that need a reboot, one a line.
kj::String listed(const kj::Vector<config::Change>& changes) {
  kj::Vector<kj::String> lines;
  for (auto& change : changes) {
    if (!change.live) lines.add(kj::str("\n  ", change.path));
  }
  return kj::strArray(lines, "");
}

bool allLive(const kj::Vector<config::Change>& changes) {
  for (auto& change : changes) {
    if (!change.live) return false;
  }
  return true;
}

[[noreturn]] void refuseNow(kj::StringPtr why) {
  fail(ErrorKind::kFailedPrecondition, why);
}

void checkAtOnce(const Decision& decision, const Situation& now) {
  if (now.failed || now.running == nullptr) {
    refuseNow("the machine's boot has failed, so nothing can take effect at once: use mode reboot");
  }
  if (allLive(decision.changes)) return;
  refuseNow(kj::str("a reboot is needed for", listed(decision.changes),
                    "\nuse mode reboot or staged, or leave these as they are"));
}

void checkForNextBoot(config::Config::Reader wanted, const Decision& decision,
                      const Situation& now) {
  if (decision.mode == rpc::ApplyMode::REBOOT && !now.canReboot) {
    auto needing = listed(decision.changes);
    refuseNow(
        kj::str("in mode container the machine is its host's and cannot reboot by itself",
                needing.size() == 0 ? kj::str() : kj::str("; a reboot is needed for", needing)));
  }
  if (!wanted.getPersist()) {
    refuseNow(
        "the next boot would not read this document: it says persist: false, so the machine "
        "fetches its config again. Set persist: true, or use mode no-reboot for changes that "
        "can take effect at once");
  }
  KJ_IF_MAYBE (why, now.notDurable) {
    refuseNow(
        kj::str("the next boot would not read this document: ", *why,
                ". Use mode no-reboot for changes that can take effect at once, or change the "
                "document where the machine fetches it"));
  }
}

}  // namespace

kj::StringPtr nameOf(rpc::ApplyMode mode) {
  constexpr kj::StringPtr kNames[] = {"auto"_kj, "reboot"_kj, "no-reboot"_kj, "staged"_kj,
                                      "try"_kj};
  auto index = static_cast<size_t>(mode);
  return index < kj::size(kNames) ? kNames[index] : "unknown"_kj;
}

Decision decide(rpc::ApplyMode asked, config::Config::Reader wanted, const Situation& now) {
  Decision decision{asked, {}, {}};
  if (static_cast<unsigned>(asked) > static_cast<unsigned>(rpc::ApplyMode::TRY)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("mode ", static_cast<unsigned>(asked), " is not known to this version"));
  }
  if (now.maintenance) {
    if (asked == rpc::ApplyMode::STAGED) {
      refuseNow(
          "in maintenance mode the machine waits for its config and takes it at once: nothing "
          "can be staged");
    }
    if (asked == rpc::ApplyMode::TRY) {
      refuseNow(
          "in maintenance mode there is no config that could come back after a trial: apply one "
          "without mode try");
    }
    decision.mode = rpc::ApplyMode::NO_REBOOT;
  } else {
    KJ_IF_MAYBE (running, now.running) decision.changes = config::changes(*running, wanted);
    if (asked == rpc::ApplyMode::AUTO) {
      bool atOnce = !now.failed && now.running != nullptr && allLive(decision.changes);
      decision.mode = atOnce ? rpc::ApplyMode::NO_REBOOT : rpc::ApplyMode::REBOOT;
    }
    if (decision.mode == rpc::ApplyMode::NO_REBOOT || decision.mode == rpc::ApplyMode::TRY) {
      checkAtOnce(decision, now);
    } else {
      checkForNextBoot(wanted, decision, now);
    }
  }
  if (decision.mode == rpc::ApplyMode::NO_REBOOT) {
    if (!wanted.getPersist()) {
      decision.warnings.add(
          kj::str("persist: false: the machine fetches its config again at its next boot"));
    } else KJ_IF_MAYBE (why, now.notDurable) {
      decision.warnings.add(kj::str("the document is not kept beyond this boot: ", *why));
    }
  }
  return decision;
}

}  // namespace talos::machined
