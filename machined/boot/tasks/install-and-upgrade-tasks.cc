// Tasks that install this system on a disk, and upgrade it to another one.
#include "machined/boot/tasks/install-and-upgrade-tasks.h"

#include "common/base/error.h"
#include "machined/boot/tasks/task.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/disk/devices/system-disk.h"
#include "machined/disk/installer/boot-files.h"
#include "machined/disk/installer/partition-layout.h"
#include "machined/disk/volumes/ephemeral-volume.h"
#include "machined/disk/volumes/installer-client.h"
#include "machined/disk/volumes/state-volume.h"
#include "machined/logs/history/boot-log-recorder.h"
#include "machined/logs/node-console.h"
#include "machined/process1/uv-loop.h"
#include "machined/upgrade/upgrade-to-config-image.h"

namespace talos::machined {

kj::String bootArgumentsOf(const KernelArguments& running, config::Install::Reader install) {
  auto list = install.getExtraKernelArgs();
  kj::Vector<kj::StringPtr> extra;
  for (auto argument : list) extra.add(argument);
  return install::bootArguments({.platform = running.first("talos.platform").orDefault("metal"),
                                 .config = running.first("talos.config").orDefault(""),
                                 .extra = extra});
}

namespace tasks {
namespace {

// Installs the running system on its disk; another system that the config names is installed later
// (machined/upgrade/upgrade-to-config-image.h). install (install, install) writes it. finishInstall
// (install, finishInstall), when the config is on STATE, marks the disk as installed
// (machined/disk/installer/system-installation.h has the order, and the state after a power cut).
// mountNewState (install, mountState) mounts STATE under the name that it has until then.
//
// After a crash at any line the next brain may run each task again: each reads its inputs again.

kj::Promise<SystemDisk> systemDisk(UvLoop& uv, MachineConfigReader& config, Store& store) {
  auto disks = co_await uv.blocking([]() { return readDisks(); });
  co_return chooseSystemDisk(disks, config.machine(store).getInstall());
}

kj::Promise<void> installSystem(UvLoop& uv, Console& console, const KernelArguments& arguments,
                                Store& store, MachineConfigReader& config, StateVolume& state,
                                Process1& process1, Installer& installer) {
  co_await state.unmount();  // in case a predecessor has mounted it
  auto install = config.machine(store).getInstall();
  auto wipe = install.getWipe();
  auto bootArguments = bootArgumentsOf(arguments, install);
  auto ephemeral = ephemeralSizeOf(config.machine(store));
  auto disk = co_await systemDisk(uv, config, store);
  if (!disk.others.empty()) {
    console.say(kj::str("warning: diskSelector also matches ", kj::strArray(disk.others, ", ")));
  }
  console.say(kj::str("installing on ", disk.path), Tone::kAlarm);
  bool again = process1.brainRestarts() > 0;
  co_await installer.run(
      [path = kj::str(disk.path), wipe, again, ephemeral,
       bootArguments = kj::mv(bootArguments)](rpc::InstallRequest::Builder request) {
        auto write = request.initWrite();
        write.setDisk(path);
        write.setWipe(wipe);
        write.setArguments(bootArguments);
        write.setAgain(again);
        fillEphemeralSize(request.initEphemeral(), ephemeral);
      });
}

kj::Promise<void> mountNew(UvLoop& uv, StateVolume& state, BootRecorder& recorder, Store& store,
                           MachineConfigReader& config) {
  auto how = encryptionOfState(config.machine(store));
  auto chosen = co_await systemDisk(uv, config, store);
  auto disk = chosen.path.slice(strlen("/dev/"));
  auto newState = kj::str(install::kState, install::kUnfinished);
  co_await state.mountWith(how, newState, disk);
  // After a crash of the brain the partition may have its final name already.
  if (!state.isMounted()) co_await state.mountWith(how, kStateName, disk);
  if (!state.isMounted()) {
    fail(ErrorKind::kFailedPrecondition, "the new partition STATE is missing");
  }
  co_await recorder.begin(true);
}

kj::Promise<void> finish(UvLoop& uv, Console& console, Store& store, MachineConfigReader& config,
                         Installer& installer) {
  auto disk = co_await systemDisk(uv, config, store);
  bool bootLoader = config.machine(store).getInstall().getBootloader();
  co_await installer.run(
      [path = kj::str(disk.path), bootLoader](rpc::InstallRequest::Builder request) {
        auto finish = request.initFinish();
        finish.setDisk(path);
        finish.setBootLoader(bootLoader);
      });
  console.say(
      kj::str("installed on ", disk.path,
              bootLoader ? "" : " without a boot loader, as machine.install.bootloader says",
              "; rebooting"),
      Tone::kAlarm);
}

// resumeUpgrade (initialize, upgrade): detects a system on trial, a failed trial of another system,
// and the record of an installation. tryStagedUpgrade (reboot, upgrade): makes the boot loader try
// a staged system.
// leaveInstallImage (install, installImage): records the image that the installed node
// upgrades itself to.

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

extern const BootTask install = task<installSystem>("install");
extern const BootTask mountNewState = task<mountNew>("mountStatePartition");
extern const BootTask finishInstall = task<finish>("finishInstall");

extern const BootTask resumeUpgrade = task<resumeBothUpgrades>("resumeUpgrade");
extern const BootTask leaveInstallImage = task<leave>("leaveInstallImage");
extern const BootTask tryStagedUpgrade = task<chooseStaged>("tryStagedUpgrade");

}  // namespace tasks
}  // namespace talos::machined
