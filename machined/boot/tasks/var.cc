// /var and the overlays that it makes writable (machined/system/var-directory.h):
// mountEphemeralPartition (boot, ephemeral), setupVarDirectory (boot, var) and
// mountOverlayFilesystems (boot, overlay). At shutdown, after everything has stopped, tasks unmount
// the file systems below /var (umount, unmountBind), then the partition (unmountSystem).
#include "machined/boot/tasks/task.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/disk/volumes/ephemeral-volume.h"
#include "machined/logs/node-console.h"
#include "machined/process1/uv-loop.h"
#include "machined/system/var-directory.h"
#include "machined/upgrade/upgrader.h"

namespace talos::machined::tasks {
namespace {

kj::Promise<void> mountVar(EphemeralVolume& ephemeral, Mounts& mounts, Console& console,
                           Store& store, MachineConfigReader& config, Upgrader& upgrader) {
  auto how = encryptionOfEphemeral(config.machine(store));
  // A restarted brain finds the mount of its predecessor.
  if (!mounts.isMountPoint(kVarPath)) {
    co_await upgrader.emptyEphemeralIfAsked();
    if (co_await ephemeral.mount(how)) co_return;
  }
  if (mountEphemeral("", mounts)) {
    console.say(
        "/var is in memory, as there is no partition for it; its content will be lost with a "
        "reboot");
  }
}

// A file system that the launcher has mounted survives a reboot.
kj::Promise<void> mountVarOfLauncher(Mounts& mounts, Console& console, Upgrader& upgrader) {
  if (mounts.isMountPoint(kVarPath)) co_return co_await upgrader.emptyEphemeralIfAsked();
  mountEphemeral("", mounts);
  console.say(
      "nothing is mounted at /var, so it is in memory; its content will be lost with a reboot");
}

void makeFolders() {
  machined::setupVarDirectory("");
}

// On the thread pool: the kernel may have to load the module first.
kj::Promise<void> mountOnTop(UvLoop& uv, Mounts& mounts) {
  return uv.blocking([&mounts]() { mountOverlays("", mounts); });
}

kj::Promise<void> unmountBelow(EphemeralVolume& ephemeral) {
  return ephemeral.unmountBelow();
}
kj::Promise<void> unmountOverlays(EphemeralVolume& ephemeral) {
  return ephemeral.unmountOverlays();
}
kj::Promise<void> unmountOtherPlaces(EphemeralVolume& ephemeral) {
  return ephemeral.unmountOtherPlaces();
}
kj::Promise<void> unmountVar(EphemeralVolume& ephemeral) {
  return ephemeral.unmount();
}

}  // namespace

extern const BootTask mountEphemeralPartition = task<mountVar>("mountEphemeralPartition");
extern const BootTask mountEphemeralInContainer =
    task<mountVarOfLauncher>("mountEphemeralPartition");
extern const BootTask setupVarDirectory = task<makeFolders>("setupVarDirectory");
extern const BootTask mountOverlayFilesystems = task<mountOnTop>("mountOverlayFilesystems");

extern const BootTask unmountOverlayFilesystems =
    task<unmountOverlays>("unmountOverlayFilesystems");
extern const BootTask unmountPodMounts = task<unmountBelow>("unmountPodMounts");
extern const BootTask unmountSystemDiskBindMounts =
    task<unmountOtherPlaces>("unmountSystemDiskBindMounts");
extern const BootTask unmountEphemeralPartition = task<unmountVar>("unmountEphemeralPartition");

}  // namespace talos::machined::tasks
