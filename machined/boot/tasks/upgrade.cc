// resumeUpgrade (initialize, upgrade): detects a system on trial, a failed trial of another system,
// and the record of an installation. tryStagedUpgrade (reboot, upgrade): makes the boot loader try
// a staged system. leaveInstallImage (install, installImage): records the image that the installed
// node upgrades itself to.
#include "machined/boot/tasks/task.h"
#include "machined/disk/volumes/state-volume.h"
#include "machined/upgrade/upgrade-to-config-image.h"

namespace talos::machined::tasks {
namespace {

// The record is on STATE.
kj::Promise<void> resumeBothUpgrades(InstallImage& image, StateVolume& state) {
  if (!state.isMounted()) return kj::READY_NOW;
  return image.resume();
}

kj::Promise<void> chooseStaged(Upgrader& upgrader) {
  return upgrader.tryStaged();
}

kj::Promise<void> leave(InstallImage& image) {
  return image.leave();
}

}  // namespace

extern const BootTask resumeUpgrade = task<resumeBothUpgrades>("resumeUpgrade");
extern const BootTask leaveInstallImage = task<leave>("leaveInstallImage");
extern const BootTask tryStagedUpgrade = task<chooseStaged>("tryStagedUpgrade");

}  // namespace talos::machined::tasks
