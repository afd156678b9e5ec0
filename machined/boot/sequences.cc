#include "machined/boot/sequences.h"

#include <linux/reboot.h>

namespace talos::machined {
namespace {

using Run = kj::Promise<void> (MachineTasks::*)();

struct Named {
  kj::StringPtr name;
  Run run;
};

void add(Sequence& sequence, MachineTasks& tasks, kj::StringPtr phase,
         std::initializer_list<Named> list) {
  auto& added = sequence.phases.add(Phase{kj::str(phase), {}});
  for (auto& item : list) {
    added.tasks.add(
        Task{kj::str(item.name), [&tasks, run = item.run]() { return (tasks.*run)(); }});
  }
}

void addEnd(Sequence& sequence, MachineTasks& tasks, kj::StringPtr name, unsigned command) {
  add(sequence, tasks, "cleanup", {{"stopNetworkd", &MachineTasks::stopNetworkd}});
  add(sequence, tasks, "stopEverything", {{"stopAllServices", &MachineTasks::stopAllServices}});
  add(sequence, tasks, "unmountSystem", {{"unmountStatePartition", &MachineTasks::unmountState}});
  auto& last = sequence.phases.add(Phase{kj::str(name), {}});
  last.tasks.add(Task{kj::str(name), [&tasks, command]() { return tasks.goDown(command); }});
}

}  // namespace

Mode modeOfPlatform(kj::StringPtr platform) {
  if (platform == "container") return Mode::kContainer;
  for (auto cloud : {"aws"_kj, "azure"_kj, "digital-ocean"_kj, "gcp"_kj, "nocloud"_kj,
                     "openstack"_kj, "vmware"_kj}) {
    if (platform == cloud) return Mode::kCloud;
  }
  return Mode::kMetal;
}

kj::StringPtr nameOf(Mode mode) {
  switch (mode) {
    case Mode::kCloud:
      return "cloud";
    case Mode::kContainer:
      return "container";
    default:
      return "metal";
  }
}

Sequence initializeSequence(MachineTasks& tasks, Mode mode) {
  using T = MachineTasks;
  Sequence s{kj::str("initialize"), {}};
  add(s, tasks, "logger", {{"setupLogger", &T::setupLogger}});
  if (mode == Mode::kContainer) {
    add(s, tasks, "systemRequirements",
        {{"writeRequiredSysctlsForContainer", &T::writeRequiredSysctls},
         {"setupSystemDirectory", &T::setupSystemDirectory}});
    add(s, tasks, "config", {{"loadConfig", &T::loadConfig}});
    return s;
  }
  add(s, tasks, "systemRequirements",
      {{"raiseClock", &T::raiseClock},
       {"enforceKSPPRequirements", &T::enforceKsppRequirements},
       {"writeRequiredSysctls", &T::writeRequiredSysctls},
       {"setupSystemDirectory", &T::setupSystemDirectory},
       {"loadNetworkModules", &T::loadNetworkModules},
       {"setRLimit", &T::setResourceLimits}});
  add(s, tasks, "etc", {{"createEtcNetworkFiles", &T::createEtcNetworkFiles}});
  // Side by side: networkd waits for the kernel most of the time.
  add(s, tasks, "discoverNetwork",
      {{"setupDiscoveryNetwork", &T::discoverNetwork}, {"loadDiskModules", &T::loadDiskModules}});
  add(s, tasks, "mountSystem", {{"mountStatePartition", &T::mountState}});
  add(s, tasks, "config", {{"loadConfig", &T::loadConfig}});
  add(s, tasks, "setupNetwork", {{"setupDiscoveryNetwork", &T::setupNetwork}});
  return s;
}

Sequence bootSequence(MachineTasks& tasks, Mode mode) {
  using T = MachineTasks;
  Sequence s{kj::str("boot"), {}};
  add(s, tasks, "validateConfig", {{"validateConfig", &T::validateConfig}});
  add(s, tasks, "saveConfig", {{"saveConfig", &T::saveConfig}});
  add(s, tasks, "env", {{"setUserEnvVars", &T::setUserEnvVars}});
  bool ownMounts = mode != Mode::kContainer;
  if (ownMounts)
    add(s, tasks, "ephemeral", {{"mountEphemeralPartition", &T::mountEphemeralPartition}});
  add(s, tasks, "var", {{"setupVarDirectory", &T::setupVarDirectory}});
  if (ownMounts)
    add(s, tasks, "overlay", {{"mountOverlayFilesystems", &T::mountOverlayFilesystems}});
  add(s, tasks, "userSetup",
      {{"writeUserFiles", &T::writeUserFiles}, {"writeUserSysctls", &T::writeUserSysctls}});
  if (mode == Mode::kContainer) {
    add(s, tasks, "startEverything", {{"startAllServices", &T::startAllServices}});
  } else {
    add(s, tasks, "startEverything",
        {{"startAllServices", &T::startAllServices}, {"loadDeviceModules", &T::loadDeviceModules}});
  }
  return s;
}

Sequence rebootSequence(MachineTasks& tasks) {
  Sequence s{kj::str("reboot"), {}};
  addEnd(s, tasks, "reboot", LINUX_REBOOT_CMD_RESTART);
  return s;
}

Sequence shutdownSequence(MachineTasks& tasks, unsigned command) {
  Sequence s{kj::str("shutdown"), {}};
  addEnd(s, tasks, "shutdown", command);
  return s;
}

}  // namespace talos::machined
