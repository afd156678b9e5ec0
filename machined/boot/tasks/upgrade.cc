// resumeUpgrade (initialize, upgrade): whether this system is on trial, or the one before it was
// and failed; what an installation has left. upgrade (upgrade, upgrade): another one into the slot
// that does not run. leaveInstallImage (install, installImage): the image that the installed node
// is to upgrade itself to.
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
kj::Promise<void> writeUpgrade(Upgrader& upgrader) {
  return upgrader.write();
}

kj::Promise<void> leave(InstallImage& image) {
  return image.leave();
}

}  // namespace

extern const BootTask resumeUpgrade = task<resumeBothUpgrades>("resumeUpgrade");
extern const BootTask leaveInstallImage = task<leave>("leaveInstallImage");
extern const BootTask upgrade = task<writeUpgrade>("upgrade");

}  // namespace talos::machined::tasks
