// Checks values whose form other programs define: machine.pods, machine.seccompProfiles and
// machine.baseRuntimeSpecOverrides. Earlier releases accepted these keys in any form, so a kept
// config gets warnings, and the node leaves out what is wrong.

#include <set>
#include <string>

#include "common/config/rules/config-check.h"
#include "common/config/rules/free-form.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

void reportMistakes(Report& report, kj::StringPtr path, FreeFormValue& value) {
  for (auto& mistake : value.mistakes) {
    auto place = mistake.path.size() == 0 ? kj::str(path) : kj::str(path, ".", mistake.path);
    report.laterError(place, kj::mv(mistake.message), mistake.hint);
  }
}

void checkPods(Report& report, capnp::List<StaticPod>::Reader pods) {
  std::set<std::string> ids;
  for (auto i : kj::indices(pods)) {
    auto path = kj::str("machine.pods[", i, "]");
    auto value = readStaticPod(pods[i].getPod());
    reportMistakes(report, path, value);
    if (value.derived.size() > 0 && !ids.insert(value.derived.cStr()).second) {
      report.laterError(kj::str(path, ".metadata.name"),
                        kj::str("another pod has the same id, ", value.derived),
                        "give it another name or namespace");
    }
  }
}

void checkProfiles(Report& report, capnp::List<SeccompProfile>::Reader profiles) {
  std::set<std::string> names;
  for (auto i : kj::indices(profiles)) {
    auto path = kj::str("machine.seccompProfiles[", i, "]");
    auto name = profiles[i].getName();
    auto nameAt = kj::str(path, ".name");
    if (report.isRead(nameAt) && !isProfileName(name)) {
      report.laterError(nameAt, kj::str(jsonString(name), " is not a valid name of a file"),
                        "use a name without a slash, such as audit.json");
    }
    if (!names.insert(name.cStr()).second) {
      report.laterError(nameAt, kj::str(jsonString(name), " is a duplicate"), "name each once");
    }
    auto value = readSeccompProfile(profiles[i].getValue());
    if (report.isRead(kj::str(path, ".value")))
      reportMistakes(report, kj::str(path, ".value"), value);
  }
}

}  // namespace

void checkFreeFormValues(Report& report, Machine::Reader machine) {
  checkPods(report, machine.getPods());
  checkProfiles(report, machine.getSeccompProfiles());
  auto overrides = machine.getBaseRuntimeSpecOverrides();
  if (overrides.size() == 0) return;
  auto value = readRuntimeSpecOverrides(overrides);
  reportMistakes(report, "machine.baseRuntimeSpecOverrides", value);
}

}  // namespace talos::config
