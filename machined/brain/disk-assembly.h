// Assembly of the disks: META, the volumes STATE and EPHEMERAL, user disks, resets, the records of
// boots, and the mounts and kernel settings of the system.
#pragma once

#include "machined/brain/brain-core.h"
#include "machined/config/volume-keys.h"
#include "machined/crashes/crash-reports.h"
#include "machined/disk/devices/device-drivers.h"
#include "machined/disk/volumes/data-volumes.h"
#include "machined/disk/volumes/devices-to-wipe.h"
#include "machined/disk/volumes/file-system-health.h"
#include "machined/disk/volumes/installer-client.h"
#include "machined/disk/volumes/node-reset.h"
#include "machined/disk/volumes/user-disks.h"
#include "machined/hardware/readings-controllers.h"
#include "machined/logs/history/boot-log-recorder.h"
#include "machined/process1/read-pool.h"
#include "machined/system/kernel-settings.h"
#include "machined/system/system-mounts.h"
#include "machined/system/watchdog.h"

namespace talos::machined {

constexpr kj::StringPtr kMetaInContainer = "/system/boot/meta"_kj;  // in its folder of slots

class DiskAssembly {
 public:
  // `sequence` returns the name of the running sequence.
  DiskAssembly(BrainCore& core, CrashReports& crashes, kj::Function<kj::String()> sequence)
      : core(core), crashes(crashes), sequence(kj::mv(sequence)) {}
  KJ_DISALLOW_COPY_AND_MOVE(DiskAssembly);

  // Runs until dropped; publishes failing file systems.
  kj::Promise<void> watch() { return fileSystems.watch(); }
  void addControllers();
  // Wipes the disks and partitions with these names. `say` gets lines about the progress, as the
  // console does.
  kj::Promise<void> wipe(kj::Vector<kj::String> names, bool zeroes,
                         kj::Function<void(kj::StringPtr)> say);

 private:
  BrainCore& core;
  CrashReports& crashes;
  kj::Function<kj::String()> sequence;
  OpenModules openModules() const {
    return [&helpers = core.helpers] { return helpers.openModules(); };
  }

 public:
  RealVolumes volumes{core.io.unixEventPort, core.timer, core.foreign, core.printInfo(),
                      openModules()};
  RealInstaller installer{core.io, core.printAlarms(), [this](kj::StringPtr disk) {
                            return lookAtDisk(reads, core.foreign, kj::str(disk));
                          }};
  ReadPool reads{core.timer, {}, [this](kj::StringPtr line) {
                   core.console.say(kj::str("warning: ", line), Tone::kAlarm);
                 }};
  MetaPartition meta = core.container ? MetaPartition::inFile(core.timer, kMetaInContainer)
                                      : MetaPartition(core.timer);

 private:
  StateOn stateOn() const;
  NetworkKms kms{kmsDependencies()};
  RealLuks luks{core.io, core.uv, openModules(), kms};
  StateKeysInMeta stateKeys{meta, reads};
  MetaFormatMarks marks{reads, meta};
  StoredVolumeReports volumeReports{core.store};

 public:
  SystemPartitions partitions{partitionsDependencies()};
  StateVolume state{core.uv,    core.timer, volumes,
                    partitions, stateOn(),  core.printWithAlarms("warning: ")};
  EphemeralVolume ephemeral{core.uv,   core.timer, volumes,
                            installer, partitions, core.printWithAlarms("warning: ")};
  kj::Own<Reset> reset = makeReset();
  UserDisks userDisks{core.uv, core.timer, volumes, installer, core.printWithAlarms("warning: ")};
  DataVolumes dataVolumes{dataVolumesDependencies()};
  BootRecorder recorder{recorderDependencies()};
  KernelMounts mounts;
  KernelScope kernelScope = core.container ? KernelScope::kNetwork : KernelScope::kAll;
  KernelSettings kernel{{"/sys/module", "/system/run/modules", kernelScope, openModules()},
                        {"/sys", "/system/run/pci-drivers", kernelScope},
                        {"/sys", kernelScope},
                        {"/proc/sys", "/system/run/sysctls", kernelScope,
                         [this](kj::StringPtr path, kj::StringPtr line) {
                           return core.helpers.setParameter(path, line);
                         }}};
  KernelWatchdogs watchdogDevices;
  Watchdog watchdog{core.uv, core.process1, watchdogDevices, kernelScope};

 private:
  // A file system whose disk hangs blocks a thread of this pool, and no API client.
  ReadPool healthReads{core.timer, {.threads = 16, .mostThreads = 32}, core.printInfo()};
  FileSystemWatch fileSystems{fileSystemsOfDisks(core.timer, healthReads,
                                                 KJ_BIND_METHOD(*this, mountsToWatch),
                                                 KJ_BIND_METHOD(*this, fileSystemsChanged))};
  // Like file systems: a hanging chip or disk blocks nothing else, and is not read again.
  ReadPool hardwareReads{
      core.timer, {.threads = 2, .mostThreads = 16, .hangingPerClient = 1}, core.printInfo()};
  kj::Maybe<kj::Own<HotplugDrivers>> hotplug;  // nullptr in a container
  kj::Vector<kj::String> untrimmed;            // problems of trimming
  kj::String locked;                           // the volume that waits for a key server, and why
  bool namedUnused = false;                    // the partitions of volumes without a document

  NetworkKms::Dependencies kmsDependencies();
  SystemPartitions::Dependencies partitionsDependencies();
  DataVolumes::Dependencies dataVolumesDependencies();
  BootRecorder::Dependencies recorderDependencies();
  kj::Own<Reset> makeReset();
  kj::Maybe<kj::String> headerBackups();
  kj::Vector<kj::String> mountsToWatch();
  kj::Promise<void> loadDrivers(HotplugDrivers::New devices);
  kj::Promise<UsesOfDevices> usesOfDevices();
  void fileSystemsChanged(kj::ArrayPtr<const kj::StringPtr> fresh);
  void publishFailing();
  kj::Own<Controller> trimController();
  kj::Own<Controller> imageCacheController();
};

}  // namespace talos::machined
