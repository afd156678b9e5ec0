// Tasks that mount and unmount STATE, /var with its overlays, and the user disks.
#include "common/base/error.h"
#include "common/base/node-messages.h"
#include "machined/boot/tasks/task.h"
#include "machined/config/config-manager.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/disk/volumes/data-volumes.h"
#include "machined/disk/volumes/ephemeral-volume.h"
#include "machined/disk/volumes/state-volume.h"
#include "machined/disk/volumes/user-disks.h"
#include "machined/logs/history/boot-log-recorder.h"
#include "machined/logs/node-console.h"
#include "machined/process1/uv-loop.h"
#include "machined/services/supervisor.h"
#include "machined/system/user-files.h"
#include "machined/system/var-directory.h"
#include "machined/upgrade/upgrader.h"

namespace talos::machined::tasks {
namespace {

EncryptionFrom sourceOf(MachineConfigReader& config, Store& store, kj::StringPtr label) {
  KJ_IF_MAYBE (all, config.tryConfig(store)) return encryptionFrom(*all, label);
  return EncryptionFrom::kMainDocument;
}

// A key server may be away for any time. Meanwhile the API tells why the node waits, and takes a
// config with another key for the next boot.
constexpr auto kApiAfter = 15 * kj::SECONDS;

// Starts the API after a while if a key of the volume is with a server. Dropping the promise ends
// the wait, not the API.
kj::Promise<void> apiMeanwhile(const Encryption& how, Supervisor& supervisor, kj::Timer& timer) {
  KJ_IF_MAYBE (encryption, how) {
    for (auto key : encryption->getKeys()) {
      if (!key.hasKms()) continue;
      return timer.afterDelay(kApiAfter)
          .then([&supervisor]() { startApi(supervisor); })
          .eagerlyEvaluate(nullptr);
    }
  }
  return kj::NEVER_DONE;
}

// mountStatePartition (initialize, mountSystem), unlockStatePartition (initialize, unlockState:
// when the keys come from a config; afterwards the config stored on the partition counts) and
// unmountStatePartition (reboot and shutdown, unmountSystem): the partition with the config and the
// records of boots. A STATE that exists and cannot be mounted ends the boot
// (machined/disk/volumes/state-volume.h).

kj::Promise<void> mountState(StateVolume& state, BootRecorder& recorder) {
  co_await state.mount();
  if (state.isMounted()) co_await recorder.begin(true);
}
kj::Promise<void> unlockState(StateVolume& state, BootRecorder& recorder, Store& store,
                              MachineConfigReader& config, ConfigManager& manager,
                              Supervisor& supervisor, kj::Timer& timer) {
  auto api = apiMeanwhile(encryptionOfState(config.machine(store)), supervisor, timer);
  co_await state.mountWith(encryptionOfState(config.machine(store)));
  co_await recorder.begin(state.isMounted());  // also records failures from here on
  co_await manager.preferKept();
  co_await state.putKeysRight(encryptionOfState(config.machine(store)),
                              sourceOf(config, store, kStateName));
}
kj::Promise<void> unmountState(StateVolume& state, BootRecorder& recorder) {
  co_await recorder.end();
  co_await state.unmount();
}

// /var and the overlays that it makes writable (machined/system/var-directory.h):
// mountEphemeralPartition (boot, ephemeral), setupVarDirectory (boot, var) and
// mountOverlayFilesystems (boot, overlay), which also makes room in /etc. At shutdown, after
// everything has stopped, tasks unmount the file systems below /var (umount, unmountBind), then the
// partition (unmountSystem).

kj::Promise<void> mountVar(EphemeralVolume& ephemeral, Mounts& mounts, Console& console,
                           Store& store, MachineConfigReader& config, Upgrader& upgrader,
                           Supervisor& supervisor, kj::Timer& timer) {
  auto how = encryptionOfEphemeral(config.machine(store));
  auto size = ephemeralSizeOf(config.machine(store));
  auto from = sourceOf(config, store, kEphemeralName);
  auto api = apiMeanwhile(how, supervisor, timer);
  // A restarted brain finds the mount of its predecessor.
  if (!mounts.isMountPoint(kVarPath)) {
    co_await upgrader.emptyEphemeralIfAsked();
    if (co_await ephemeral.mount(how, size, from)) co_return;
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

// On the thread pool: the kernel may have to load the module first. Files of the config that /etc
// cannot get do not end the boot.
kj::Promise<void> mountOnTop(UvLoop& uv, Mounts& mounts, Store& store, MachineConfigReader& config,
                             Console& console) {
  auto paths = newEtcFiles(userFiles(config.machine(store)));
  auto problem = co_await uv.blocking([&mounts, paths = kj::mv(paths)]() {
    mountOverlays("", mounts);
    kj::Maybe<kj::String> failure;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { addToEtc("", mounts, paths); })) {
      failure = messageOf(*e);
    }
    return failure;
  });
  KJ_IF_MAYBE (text, problem) {
    console.say(kj::str("problem: ", messages::kNotInEffect, "EtcFileConfig: ", *text),
                Tone::kAlarm);
  }
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

// mountUserDisks (boot, userDisks) and unmountUserDisks (reboot, shutdown and reset, unmountUser):
// machine.disks (machined/disk/volumes/user-disks.h). After them mountUserVolumes, the volumes of
// documents (machined/disk/volumes/data-volumes.h), which are unmounted first.

kj::Promise<void> mountDisks(UserDisks& disks, Store& store, MachineConfigReader& config) {
  return disks.mount(userDisksOf(config.machine(store)));
}

kj::Promise<void> mountVolumes(DataVolumes& volumes, Store& store, MachineConfigReader& config) {
  return volumes.mountAtBoot(config.machine(store));
}

kj::Promise<void> unmountDisks(UserDisks& disks, DataVolumes& volumes, Store& store,
                               MachineConfigReader& config) {
  co_await volumes.unmountAll();
  KJ_IF_MAYBE (machine, config.tryMachine(store)) co_await disks.unmount(userDisksOf(*machine));
  // A node without a config has mounted none.
}

}  // namespace

extern const BootTask mountStatePartition = task<mountState>("mountStatePartition");
extern const BootTask unlockStatePartition = task<unlockState>("unlockStatePartition");
extern const BootTask unmountStatePartition = task<unmountState>("unmountStatePartition");

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

extern const BootTask mountUserDisks = task<mountDisks>("mountUserDisks");
extern const BootTask mountUserVolumes = task<mountVolumes>("mountUserVolumes");
extern const BootTask unmountUserDisks = task<unmountDisks>("unmountUserDisks");

}  // namespace talos::machined::tasks
