#include "machined/config/apply-decision.h"

#include <string.h>

#include "common/base/error.h"
#include "machined/disk/volumes/volume-changes.h"
#include "machined/disk/volumes/volume-plan.h"

namespace talos::machined {
namespace {

// Lists the paths that need a reboot, one per line.
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

[[noreturn]] void refuse(kj::StringPtr reason) {
  fail(ErrorKind::kFailedPrecondition, reason);
}

void checkAtOnce(const Decision& decision, const Situation& now) {
  if (now.failed || now.running == nullptr) {
    refuse("the boot of the node failed, so no change can take effect at once; use mode reboot");
  }
  if (allLive(decision.changes)) return;
  refuse(kj::str("these changes need a reboot:", listed(decision.changes),
                 "\nuse mode reboot or staged, or undo these changes"));
}

// Returns "machine.sysctls.a, machine.sysctls.b and 3 more".
kj::String summary(const kj::Vector<config::Change>& changes) {
  constexpr size_t kMostNamed = 3;
  kj::Vector<kj::StringPtr> paths;
  for (auto& change : changes) {
    if (paths.size() < kMostNamed) paths.add(change.path);
  }
  auto more = changes.size() - paths.size();
  return kj::str(kj::strArray(paths, ", "),
                 more == 0 ? kj::str() : kj::str(" and ", more, " more"));
}

void checkDuringTrial(config::Config::Reader running, config::Config::Reader wanted,
                      const RunningTrial& trial) {
  if (config::changes(running, wanted).empty()) return;
  if (config::changes(trial.before, wanted).empty()) return;
  refuse(kj::str("a config is on trial (", summary(config::changes(trial.before, running)),
                 ") and will be reverted in ", trial.left / kj::SECONDS,
                 " s; this change would keep a part of it for good. Confirm the trial first "
                 "(talosctl patch machineconfig --mode=no-reboot -p '[]'), wait for its end, or "
                 "use mode try"));
}

constexpr auto kEncryption = "machine.systemDiskEncryption"_kj,
               kEphemeralSize = "machine.ephemeralSize"_kj;

// Checks that the next boot will find the keys of the volumes in its config.
void checkKeys(const Decision& decision, config::Config::Reader wanted, const Situation& now) {
  if (wanted.getPersist() && now.notDurable == nullptr) return;
  for (auto& change : decision.changes) {
    if (!change.path.startsWith(kEncryption)) continue;
    refuse(kj::str("the next boot would not have these keys: ", change.path,
                   "\nchange the config at its source, or undo this change"));
  }
  KJ_IF_MAYBE (running, now.running) {
    auto documents = volumesWithOtherKeys(running->getMachine(), wanted.getMachine());
    if (documents.empty()) return;
    refuse(kj::str("the next boot would not have these keys: ", kj::strArray(documents, ", "),
                   "\nchange the config at its source, or undo this change"));
  }
}

// Refuses changes of volumes and of their keys: a trial writes nothing to disk.
void checkForTrial(const Decision& decision, config::Config::Reader wanted, const Situation& now) {
  for (auto& change : decision.changes) {
    if (!change.path.startsWith(kEncryption)) continue;
    refuse(kj::str("the keys of a partition cannot be tried: ", change.path,
                   "\nuse mode no-reboot, or undo this change"));
  }
  KJ_IF_MAYBE (running, now.running) {
    auto documents = changedVolumes(running->getMachine(), wanted.getMachine());
    if (documents.empty()) return;
    refuse(kj::str("a config on trial writes nothing to disks, so volumes cannot be tried: ",
                   kj::strArray(documents, ", "), "\nuse mode no-reboot, or undo this change"));
  }
}

void checkForNextBoot(config::Config::Reader wanted, const Situation& now) {
  if (!wanted.getPersist()) {
    refuse(
        "the next boot would not use this config: with persist: false the node fetches its config "
        "again; set persist: true, or use mode no-reboot for changes that need no reboot");
  }
  KJ_IF_MAYBE (reason, now.notDurable) {
    refuse(kj::str("the next boot would not use this config: ", *reason,
                   "; use mode no-reboot for changes that need no reboot, or change the config at "
                   "its source"));
  }
}

}  // namespace

bool changesKeys(kj::ArrayPtr<const config::Change> changes) {
  for (auto& change : changes) {
    if (change.path.startsWith(kEncryption)) return true;
    bool ofVolume = change.path.startsWith("machine.volumes[");
    if (ofVolume && strstr(change.path.cStr(), "].encryption.") != nullptr) return true;
  }
  return false;
}

void requireFree(const Activity& now, rpc::ApplyMode requested) {
  KJ_IF_MAYBE (other, now.applying) {
    fail(ErrorKind::kConflict, kj::str("another config is being applied (", *other,
                                       "); this one was not applied; retry"));
  }
  if (now.maintenance || now.sequence.size() == 0) return;
  if (now.bootHasSaved && requested == rpc::ApplyMode::STAGED) return;
  fail(ErrorKind::kConflict,
       kj::str("the sequence ", now.sequence,
               " is running; the config was not applied; retry when it has ended",
               now.bootHasSaved ? ", or use --on-reboot and reboot the node" : ""));
}

void requireVersion(uint64_t ifVersion, uint64_t active) {
  if (ifVersion == 0 || ifVersion == active) return;
  fail(ErrorKind::kConflict,
       kj::str("the config changed in the meantime: this one is based on version ", ifVersion,
               ", but version ", active, " is active; repeat the change on that version"));
}

kj::StringPtr nameOf(rpc::ApplyMode mode) {
  constexpr kj::StringPtr kNames[] = {"auto"_kj, "reboot"_kj, "no-reboot"_kj, "staged"_kj,
                                      "try"_kj};
  auto index = static_cast<size_t>(mode);
  return index < kj::size(kNames) ? kNames[index] : "unknown"_kj;
}

Decision decide(rpc::ApplyMode requested, config::Config::Reader wanted, const Situation& now) {
  Decision decision{.mode = requested, .changes = {}, .warnings = {}};
  if (static_cast<unsigned>(requested) > static_cast<unsigned>(rpc::ApplyMode::TRY)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("mode ", static_cast<unsigned>(requested), " is unknown to this version"));
  }
  if (now.maintenance) {
    if (requested == rpc::ApplyMode::STAGED) {
      refuse(
          "a node in maintenance mode applies its config at once and cannot stage it; leave out "
          "mode staged");
    }
    if (requested == rpc::ApplyMode::TRY) {
      refuse("a node in maintenance mode has no config to revert to; leave out mode try");
    }
    decision.mode = rpc::ApplyMode::NO_REBOOT;
  } else {
    KJ_IF_MAYBE (running, now.running) {
      decision.changes = config::changes(*running, wanted);
      // A boot would change nothing.
      bool keepsSize = !mayGrowEphemeral(wanted.getMachine(), now.ephemeralBytes);
      for (auto& change : decision.changes) {
        if (keepsSize && change.path.startsWith(kEphemeralSize)) change.live = true;
      }
      KJ_IF_MAYBE (trial, now.trial) {
        if (requested != rpc::ApplyMode::TRY) checkDuringTrial(*running, wanted, *trial);
      }
      decision.warnings = checkIdentity(*running, wanted, now.identity);
    }
    if (requested == rpc::ApplyMode::AUTO) {
      bool atOnce = !now.failed && now.running != nullptr && allLive(decision.changes);
      decision.mode = atOnce ? rpc::ApplyMode::NO_REBOOT : rpc::ApplyMode::REBOOT;
    }
    if (decision.mode == rpc::ApplyMode::NO_REBOOT || decision.mode == rpc::ApplyMode::TRY) {
      checkAtOnce(decision, now);
      checkKeys(decision, wanted, now);
      if (decision.mode == rpc::ApplyMode::TRY) checkForTrial(decision, wanted, now);
    } else {
      checkForNextBoot(wanted, now);
    }
  }
  bool boots = decision.mode == rpc::ApplyMode::REBOOT || decision.mode == rpc::ApplyMode::STAGED;
  for (auto& change : decision.changes) {
    if (!boots || now.ephemeralBytes == 0 || change.live) continue;
    if (!change.path.startsWith(kEphemeralSize)) continue;
    decision.warnings.add(kj::str("VolumeConfig[EPHEMERAL].provisioning: the partition has ",
                                  binarySize(now.ephemeralBytes), " and grows at the boot, if ",
                                  "there is free space after it; it never shrinks"));
    break;
  }
  if (decision.mode == rpc::ApplyMode::NO_REBOOT) {
    decision.confirms = now.trial != nullptr && decision.changes.empty();
    if (!wanted.getPersist()) {
      decision.warnings.add(
          kj::str("persist: false: the node fetches its config again with the next boot"));
    } else KJ_IF_MAYBE (reason, now.notDurable) {
      decision.warnings.add(kj::str("the config will be lost with the next boot: ", *reason));
    }
  }
  return decision;
}

}  // namespace talos::machined
