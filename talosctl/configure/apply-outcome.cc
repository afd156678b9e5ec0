#include "talosctl/configure/apply-outcome.h"

#include "common/base/lines.h"
#include "common/screen/look.h"
#include "common/text/foreign-text.h"
#include "common/text/texts.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {
namespace {

using rpc::ApplyMode;

kj::StringPtr tense(const ApplySettings& settings, kj::StringPtr real, kj::StringPtr dry) {
  return settings.dryRun ? dry : real;
}

// Returns why a machine has to reboot for this document.
kj::String rebootReason(rpc::ApplyResult::Reader result, const ApplySettings& settings) {
  kj::Vector<kj::String> paths;
  for (auto change : result.getChanges()) {
    if (!change.getLive()) paths.add(printable(change.getPath()));
  }
  if (paths.size() == 1) return kj::str(": ", paths[0], " needs a reboot");
  if (paths.size() > 1) return kj::str(": ", paths.size(), " of the changes need a reboot");
  if (settings.mode != ApplyMode::REBOOT) return kj::str();
  if (result.getChanges().size() == 0) {
    return result.getDiff().size() > 0 ? kj::str()
                                       : kj::str(", although nothing changes: --mode=reboot",
                                                 settings.byDefault ? ", the default" : "",
                                                 "; --mode=auto would not reboot");
  }
  return kj::str(": --mode=reboot", settings.byDefault ? ", the default" : "",
                 "; --mode=no-reboot would be enough");
}

// Returns `whole` if the node could apply all of it.
kj::String effect(rpc::ApplyResult::Reader result, kj::StringPtr whole,
                  kj::StringPtr partly = "stored, but not in effect: "_kj) {
  kj::Vector<kj::String> missing;
  for (auto text : result.getNotInEffect()) missing.add(printable(text));
  if (missing.empty()) return kj::str(whole);
  return kj::str(partly, kj::strArray(missing, "; "));
}

kj::String dryEffect(rpc::ApplyResult::Reader result) {
  return effect(result, "would take effect without a reboot",
                "would be stored, but not be in effect: "_kj);
}

// Returns what a boot with the config would leave out, which a dry run knows; empty for nothing.
kj::String leftOutByABoot(rpc::ApplyResult::Reader result) {
  return effect(result, "", "; also then not in effect: "_kj);
}

// Returns what a change does to parts of the control plane; empty if it restarts none.
kj::String restarts(rpc::ApplyResult::Reader result, kj::StringPtr verb) {
  kj::Vector<kj::String> names;
  for (auto name : result.getRestarts()) names.add(printable(name));
  return names.empty() ? kj::str() : kj::str("; ", verb, " ", kj::strArray(names, ", "));
}

kj::String sentence(rpc::ApplyResult::Reader result, const ApplySettings& settings, bool insecure) {
  if (insecure) {
    return kj::str(tense(settings, "applied: the machine boots with this config",
                         "the machine would boot with this config"));
  }
  switch (result.getMode()) {
    case ApplyMode::REBOOT:
      return kj::str(tense(settings, "applied: the node reboots", "the node would reboot"),
                     settings.dryRun ? rebootReason(result, settings) : kj::str(),
                     leftOutByABoot(result));
    case ApplyMode::STAGED:
      return kj::str(tense(settings, "applied: takes effect at the next boot",
                           "would take effect at the next boot"),
                     leftOutByABoot(result));
    case ApplyMode::TRY: {
      auto length = durationText(result.getRevertsInMs() * kj::MILLISECONDS);
      if (settings.dryRun) {
        return kj::str(dryEffect(result), ", for ", length, restarts(result, "would restart"));
      }
      return kj::str("on trial: ", effect(result, "in effect"), ", reverting in ", length,
                     " unless it is confirmed", restarts(result, "restarts"));
    }
    default:
      if (result.getConfirmed()) {
        return kj::str(tense(settings, "confirmed: the config that was on trial is kept",
                             "would confirm the config that is on trial"));
      }
      if (isUnchanged(result)) {
        return kj::str(tense(settings, "nothing changed", "nothing would change"));
      }
      if (settings.dryRun) {
        return kj::str(dryEffect(result), restarts(result, "would restart"));
      }
      // The node has answered before it carried the changes out.
      if (result.getOperation() != 0) return kj::str("applied, without a reboot");
      return kj::str("applied: ", effect(result, "in effect, without a reboot"),
                     restarts(result, "restarts"));
  }
}

void addDiff(DrawnText& out, kj::StringPtr diff, bool colour) {
  if (!colour) return void(out.add(diff));
  for (auto line : Lines(diff)) {
    auto look = line.size() == 0 ? Look::kPlain
                : line[0] == '+' ? Look::kGood
                : line[0] == '-' ? Look::kBad
                : line[0] == '@' ? Look::kAccent
                                 : Look::kPlain;
    out.add(line, look).add("\n"_kj);
  }
}

// Returns the changes of a dry run to the network and to disks; empty without changes.
kj::String planOf(rpc::ApplyResult::Reader result) {
  kj::Vector<kj::String> lines;
  if (result.getNetworkPlan().size() > 0) lines.add(kj::str("\nNETWORK\n"));
  for (auto step : result.getNetworkPlan()) lines.add(kj::str(printable(step), "\n"));
  if (result.getNetworkProblems().size() > 0) lines.add(kj::str("\nNETWORK PROBLEMS\n"));
  for (auto problem : result.getNetworkProblems()) lines.add(kj::str(printable(problem), "\n"));
  if (result.getVolumePlan().size() > 0) lines.add(kj::str("\nVOLUMES\n"));
  for (auto step : result.getVolumePlan()) lines.add(kj::str(printable(step), "\n"));
  return kj::strArray(lines, "");
}

// The keys of parts of the control plane.
struct PartKey {
  kj::StringPtr key, part;
};
constexpr PartKey kPartKeys[] = {{"cluster.apiServer."_kj, "kube-apiserver"_kj},
                                 {"cluster.controllerManager."_kj, "kube-controller-manager"_kj},
                                 {"cluster.scheduler."_kj, "kube-scheduler"_kj}};

// Keys whose documents the node names instead: UserVolumeConfig[data].
struct DocumentKey {
  kj::StringPtr key, kind;  // `kind`: the end of its name
};
constexpr DocumentKey kDocumentKeys[] = {{"machine.volumes"_kj, "VolumeConfig"_kj},
                                         {"machine.ephemeralSize"_kj, "VolumeConfig"_kj},
                                         {"machine.trims"_kj, "FilesystemTrimConfig"_kj}};

// Returns true if the part that is not in effect, "KEY: CAUSE", is of this path.
bool isOfPath(kj::StringPtr part, kj::StringPtr path) {
  auto key = part.slice(0, part.findFirst(':').orDefault(part.size()));
  for (auto& row : kDocumentKeys) {
    auto kind = key.slice(0, key.findFirst('[').orDefault(key.size()));
    if (path.startsWith(row.key) && kind.endsWith(row.kind)) return true;
  }
  if (path.size() < key.size() || path.slice(0, key.size()) != key) return false;
  char next = path[key.size()];
  return next == '\0' || next == '.' || next == '[';
}

// Returns when the change would act, or what it would restart; the sentence says why one would not
// be in effect.
kj::String timeOf(rpc::ConfigChange::Reader change, rpc::ApplyResult::Reader result) {
  if (!change.getLive()) return kj::str("needs a reboot");
  kj::StringPtr path = change.getPath();
  for (auto part : result.getNotInEffect()) {
    if (isOfPath(part, path)) return kj::str("not at once");
  }
  for (auto& row : kPartKeys) {
    bool isOf = path.startsWith(row.key) && contains(result.getRestarts(), row.part);
    if (isOf) return kj::str("restarts ", row.part);
  }
  return kj::str("at once");
}

}  // namespace

bool isUnchanged(rpc::ApplyResult::Reader result) {
  auto mode = result.getMode();
  bool acts = mode == ApplyMode::REBOOT || mode == ApplyMode::STAGED || mode == ApplyMode::TRY ||
              result.getOperation() != 0;
  return !acts && !result.getConfirmed() && result.getChanges().size() == 0 &&
         result.getDiff().size() == 0;
}

kj::String renderWarnings(kj::StringPtr node, rpc::ApplyResult::Reader result) {
  kj::Vector<kj::String> lines;
  for (auto warning : result.getWarnings()) {
    lines.add(kj::str("WARNING: ", printable(node), ": ", printable(warning), "\n"));
  }
  return kj::strArray(lines, "");
}

DrawnText renderOutcome(kj::StringPtr node, rpc::ApplyResult::Reader result,
                        const ApplySettings& settings, bool insecure, bool colour) {
  DrawnText out(kj::str(printable(node), ": ", sentence(result, settings, insecure), "\n"));
  if (!settings.dryRun) return out;
  addDiff(out, result.getDiff(), colour);
  auto plan = planOf(result);
  if (result.getChanges().size() == 0) return kj::mv(out.add(plan));
  Table table({"CHANGE", "EFFECT"});
  for (auto change : result.getChanges()) {
    table.add(change.getPath(), timeOf(change, result));
  }
  return kj::mv(out.add("\n"_kj).add(table.render()).add(plan));
}

}  // namespace talos::talosctl
