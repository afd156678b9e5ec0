#include "machined/boot/sequences.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace talos::machined {
namespace {

// "phase(task,...) ..."
std::string show(kj::StringPtr sequence, Mode mode) {
  std::string text = sequence.cStr();
  text += ":";
  for (auto& phase : plannedPhases(sequence, mode)) {
    text += std::string(" ") + phase.name.cStr() + "(";
    for (auto task : phase.tasks) {
      if (text.back() != '(') text += ",";
      text += task->name.cStr();
    }
    text += ")";
  }
  return text;
}

// Catches: a phase or a task that is renamed, moved or lost.
TEST(Sequences, NamesAndOrder) {
  EXPECT_EQ(
      "initialize: logger(setupLogger) "
      "systemRequirements(raiseClock,enforceKSPPRequirements,"
      "writeRequiredSysctls,setupSystemDirectory,loadNetworkModules,"
      "setRLimit) etc(createEtcNetworkFiles) "
      "discoverNetwork(setupDiscoveryNetwork,loadDiskModules) "
      "systemDisk(awaitSystemDisk) "
      "finishReset(finishReset) mountSystem(mountStatePartition) "
      "upgrade(resumeUpgrade) platform(recallPlatform) config(loadConfig) "
      "unlockState(unlockStatePartition) "
      "upgrade(resumeUpgrade) platform(recallPlatform) "
      "setupNetwork(setupDiscoveryNetwork)",
      show("initialize", Mode::kMetal));
  EXPECT_EQ(
      "initialize: logger(setupLogger) "
      "systemRequirements(writeRequiredSysctlsForContainer,"
      "setupSystemDirectory,setRLimit) etc(createEtcNetworkFiles) "
      "discoverNetwork(setupDiscoveryNetwork) "
      "finishReset(finishReset) mountSystem(mountStatePartition) upgrade(resumeUpgrade) "
      "config(loadConfig) unlockState(unlockStatePartition) upgrade(resumeUpgrade)",
      show("initialize", Mode::kContainer));
  EXPECT_EQ(
      "boot: validateConfig(validateConfig) saveConfig(saveConfig) "
      "clearConfigSource(clearConfigSource) "
      "env(setUserEnvVars) ephemeral(mountEphemeralPartition) "
      "var(setupVarDirectory) overlay(mountOverlayFilesystems) "
      "userModules(loadUserModules) userDisks(mountUserDisks) userVolumes(mountUserVolumes) "
      "userSetup(writeUserFiles,writeUserSysfs,writeUserSysctls) "
      "startEverything(startAllServices,loadDeviceModules) "
      "checkControlPlaneStatus(checkControlPlaneStatus)",
      show("boot", Mode::kMetal));
  EXPECT_EQ(
      "boot: validateConfig(validateConfig) saveConfig(saveConfig) "
      "env(setUserEnvVars) ephemeral(mountEphemeralPartition) "
      "var(setupVarDirectory) overlay(mountOverlayFilesystems) "
      "userModules(loadUserModules) userSetup(writeUserFiles,writeUserSysfs,writeUserSysctls) "
      "startEverything(startAllServices) "
      "checkControlPlaneStatus(checkControlPlaneStatus)",
      show("boot", Mode::kContainer));
  EXPECT_EQ(
      "install: validateConfig(validateConfig) env(setUserEnvVars) install(install) "
      "mountState(mountStatePartition) saveConfig(saveConfig) "
      "installImage(leaveInstallImage) unmountState(unmountStatePartition) "
      "finishInstall(finishInstall) "
      "stopEverything(stopAllServices) reboot(reboot)",
      show("install", Mode::kMetal));
  EXPECT_EQ(
      "reboot: upgrade(tryStagedUpgrade) cleanup(stopAllPods,stopNetworkd) "
      "stopEverything(stopAllServices) unmountSystem(unmountStatePartition) reboot(reboot)",
      show("reboot", Mode::kContainer));
  EXPECT_EQ(
      "reboot: upgrade(tryStagedUpgrade) cleanup(stopAllPods,stopNetworkd) "
      "stopEverything(stopAllServices) "
      "unmountUser(unmountUserDisks) umount(unmountOverlayFilesystems,unmountPodMounts) "
      "unmountBind(unmountSystemDiskBindMounts) "
      "unmountSystem(unmountEphemeralPartition,unmountStatePartition) reboot(reboot)",
      show("reboot", Mode::kMetal));
  EXPECT_EQ(
      "shutdown: cleanup(stopAllPods,stopNetworkd) stopEverything(stopAllServices) "
      "unmountUser(unmountUserDisks) umount(unmountOverlayFilesystems,unmountPodMounts) "
      "unmountBind(unmountSystemDiskBindMounts) "
      "unmountSystem(unmountEphemeralPartition,unmountStatePartition) shutdown(shutdown)",
      show("shutdown", Mode::kMetal));
  EXPECT_EQ(
      "reset: cleanup(stopAllPods,stopNetworkd) stopEverything(stopAllServices) "
      "unmountUser(unmountUserDisks) umount(unmountOverlayFilesystems,unmountPodMounts) "
      "unmountBind(unmountSystemDiskBindMounts) forget(forgetErasedHeaders) "
      "unmountSystem(unmountEphemeralPartition,unmountStatePartition) reset(resetSystemDisk) "
      "reboot(reboot)",
      show("reset", Mode::kMetal));
  EXPECT_EQ(
      "reset: cleanup(stopAllPods,stopNetworkd) stopEverything(stopAllServices) "
      "umount(unmountPodMounts) unmountSystem(unmountStatePartition) reset(resetSystemDisk) "
      "reboot(reboot)",
      show("reset", Mode::kContainer));
  EXPECT_EQ(show("initialize", Mode::kMetal), show("initialize", Mode::kCloud));
}

// Catches: a part of the sequence "upgrade" that is renamed; a plan that does not reach its task.
TEST(Sequences, UpgradeHasTheTaskThatItIsGiven) {
  unsigned runs = 0;
  auto sequence = upgradeSequence([&]() -> kj::Promise<void> {
    ++runs;
    return kj::READY_NOW;
  });
  ASSERT_EQ(sequence.phases.size(), 1u);
  ASSERT_EQ(sequence.phases[0].tasks.size(), 1u);
  auto& task = sequence.phases[0].tasks[0];
  EXPECT_EQ(kj::str(sequence.name, ": ", sequence.phases[0].name, "(", task.name, ")"),
            "upgrade: upgrade(upgrade)");
  (void)task.run();
  EXPECT_EQ(runs, 1u);
}

// Catches: a task that does another task's work, or two tasks with the same name.
TEST(Sequences, EachTaskDoesItsOwn) {
  std::set<const BootTask*> tasks;
  for (auto mode : {Mode::kMetal, Mode::kContainer}) {
    for (auto sequence : {"initialize"_kj, "install"_kj, "boot"_kj, "reboot"_kj, "shutdown"_kj}) {
      if (sequence == "install" && mode == Mode::kContainer) continue;
      for (auto& phase : plannedPhases(sequence, mode)) {
        for (auto task : phase.tasks) tasks.insert(task);
      }
    }
  }
  std::set<kj::Promise<void> (*)(const TaskDependencies&)> functions;
  for (auto task : tasks) functions.insert(task->run);
  EXPECT_EQ(tasks.size(), functions.size());
}

// Catches: a cloud taken for metal, where a disk would be required.
TEST(Modes, ByPlatform) {
  EXPECT_EQ(Mode::kCloud, modeOfPlatform("gcp"));
  EXPECT_EQ(Mode::kContainer, modeOfPlatform("container"));
  EXPECT_EQ(Mode::kMetal, modeOfPlatform("packet"));
  EXPECT_EQ("cloud"_kj, nameOf(Mode::kCloud));
}

}  // namespace
}  // namespace talos::machined
