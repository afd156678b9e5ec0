#include "machined/brain/disk-assembly.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/base/version.h"
#include "common/base/within.h"
#include "common/disk/boot-slots.h"
#include "common/image-cache/cache-layout.h"
#include "machined/boot/node-environment.h"
#include "machined/disk/volumes/disk-controllers.h"
#include "machined/disk/volumes/file-system-trim.h"
#include "machined/disk/volumes/image-cache-controller.h"
#include "machined/disk/volumes/mount-volume.h"
#include "machined/disk/volumes/volume-changes.h"
#include "machined/disk/volumes/volume-use.h"
#include "machined/oom/oom-controller.h"
#include "machined/system/trusted-bundle.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

// Client of the pool hardwareReads, beside those of the readings.
constexpr uint64_t kTrims = 3;
constexpr auto kDiskLimit = 20 * kj::SECONDS;  // also while keys are derived on a slow machine

}  // namespace

StateOn DiskAssembly::stateOn() const {
  if (core.container) return StateOn::kLauncher;
  bool installed = install::slotNamed(core.arguments.first("talos.slot").orDefault("")) != nullptr;
  return installed ? StateOn::kOwnDisk : StateOn::kDisk;
}

NetworkKms::Dependencies DiskAssembly::kmsDependencies() {
  return {.network = core.io.provider->getNetwork(),
          .timer = core.timer,
          .resolve = [this](kj::StringPtr host) { return core.foreign.resolve(host); },
          .authorities =
              [this](bool beforeConfig) {
                // EPHEMERAL is opened before the boot writes the files of the config.
                kj::Vector<kj::String> own;
                if (!beforeConfig) {
                  KJ_IF_MAYBE (machine, core.configReader.tryMachine(core.store)) {
                    for (auto root : machine->getTrustedRoots()) own.add(kj::str(root.getValue()));
                  }
                }
                return core.uv.blocking(
                    [this, own = own.releaseAsArray()]() { return bundleWith(mounts, own); });
              },
          .foreign = core.foreign,
          .uuid = systemUuid};
}

SystemPartitions::Dependencies DiskAssembly::partitionsDependencies() {
  return {.luks = luks,
          .stateKeys = stateKeys,
          .installer = installer,
          .marks = marks,
          .mappings = []() { return readMappings(); },
          .uuid = systemUuid,
          .say = core.printWithAlarms("warning: "),
          .reports = volumeReports,
          .backups = KJ_BIND_METHOD(*this, headerBackups),
          .timer = core.timer,
          .waits =
              [this](kj::StringPtr error) {
                locked = kj::str(error);
                publishFailing();
              }};
}

DataVolumes::Dependencies DiskAssembly::dataVolumesDependencies() {
  return {
      .uv = core.uv,
      .timer = core.timer,
      .store = core.store,
      .volumes = volumes,
      .installer = installer,
      .partitions = partitions,
      .reports = volumeReports,
      .disks = [this]() { return reads.run("reading the disks", []() { return readDisks(); }); },
      .look =
          [this](kj::StringPtr disk) {
            return within(
                core.timer, kDiskLimit, lookAtDisk(reads, core.foreign, kj::str(disk)),
                kj::str(disk, " did not respond within ", kDiskLimit / kj::SECONDS, " s"));
          },
      .stateDevice = [this]() { return state.mounted(); },
      .records = [this]() -> kj::Maybe<kj::String> {
        if (state.mounted() == nullptr) return nullptr;
        return kj::str(kStatePath, "/volumes");
      },
      .attach = attachVolumes(core.uv, core.timer, core.printInfo()),
      .restarted = core.process1.brainRestarts() > 0,
      .say = core.printWithAlarms("warning: "),
      .alarm = core.printAlarms(),
      .held = [this]() -> kj::Maybe<kj::String> {
        auto held = volumesHeld(core.store);
        // A node without the partition EPHEMERAL has memory there.
        if (held == nullptr && !isMountPoint(kVarPath)) held = kj::str("/var is not mounted");
        return held;
      }};
}

BootRecorder::Dependencies DiskAssembly::recorderDependencies() {
  return {.uv = core.uv,
          .timer = core.timer,
          .clock = core.clock,
          .logs = core.logs,
          .events = core.events,
          .store = core.store,
          .bootId = thisBootId(),
          .version = kj::str(buildVersion().tag),
          .say = core.printWithAlarms("warning: "),
          .folder = kBootsFolder,
          .pstore = core.container ? ""_kj : kPstoreFolder,
          .opened = KJ_BIND_METHOD(crashes, begin)};
}

kj::Own<Reset> DiskAssembly::makeReset() {
  if (core.container) return resetOfFolders(core.process1, core.uv, core.printAlarms());
  return resetOfDisk(core.process1, core.uv, reads, meta, installer, core.printAlarms());
}

// Returns the folder on STATE, while STATE is encrypted itself.
kj::Maybe<kj::String> DiskAssembly::headerBackups() {
  KJ_IF_MAYBE (node, state.mounted()) {
    if (partitionOfMapping(*node) != nullptr) return kj::str(kStatePath, "/luks");
  }
  return nullptr;
}

// Returns no mounts during a shutdown, which unmounts them, and during an installation, which
// mounts STATE briefly.
kj::Vector<kj::String> DiskAssembly::mountsToWatch() {
  kj::Vector<kj::String> targets;
  auto running = sequence();
  for (auto name : {kInstall, kReboot, kShutdown, kReset}) {
    if (running == name) return targets;
  }
  targets.add(kj::str(kStatePath));
  targets.add(kj::str(kVarPath));
  for (auto& target : dataVolumes.mounted()) targets.add(kj::mv(target));
  KJ_IF_MAYBE (machine, core.configReader.tryMachine(core.store)) {
    for (auto& disk : userDisksOf(*machine)) {
      for (auto& p : disk.partitions) targets.add(kj::mv(p.mountpoint));
    }
  }
  return targets;
}

void DiskAssembly::fileSystemsChanged(kj::ArrayPtr<const kj::StringPtr> fresh) {
  for (auto problem : fresh) core.console.say(kj::str("problem: ", problem), Tone::kAlarm);
  if (fileSystems.problems().size() == 0) core.console.say("all file systems work again");
  publishFailing();
}

void DiskAssembly::publishFailing() {
  kj::Vector<kj::String> problems;
  for (auto& problem : fileSystems.problems()) problems.add(kj::str(problem));
  for (auto& problem : untrimmed) problems.add(kj::str(problem));
  if (locked.size() > 0) problems.add(kj::str(locked));
  core.status.setFailing(kj::mv(problems));
}

kj::Own<Controller> DiskAssembly::trimController() {
  return kj::heap<FilesystemTrimController>(FilesystemTrimController::Dependencies{
      .timer = core.timer,
      .clock = core.clock,
      .node = systemUuid(),
      .mounts =
          [this]() {
            return core.uv.blocking([]() { return kj::str(readFile("/proc/self/mountinfo")); });
          },
      .targets = KJ_BIND_METHOD(*this, mountsToWatch),
      .intervals =
          [this](Store& store) {
            kj::Vector<TrimInterval> none;
            KJ_IF_MAYBE (machine, core.configReader.tryMachine(store))
              return trimIntervals(*machine);
            return none;
          },
      .trim =
          [this](kj::String mountpoint, uint64_t offset) {
            return hardwareReads.run(
                "trimming a file system",
                [mountpoint = kj::mv(mountpoint), offset]() {
                  return trimPart(mountpoint, offset);
                },
                kTrims);
          },
      .say = core.printInfo(),
      .changed =
          [this](kj::Vector<kj::String> problems) {
            untrimmed = kj::mv(problems);
            for (auto& problem : untrimmed)
              core.console.say(kj::str("problem: ", problem), Tone::kAlarm);
            publishFailing();
          }});
}

kj::Promise<void> DiskAssembly::loadDrivers(HotplugDrivers::New devices) {
  auto problems = co_await core.uv.blocking([this, devices = kj::mv(devices)]() {
    kj::Vector<kj::String> problems;
    auto failed = [&](kj::StringPtr problem) { problems.add(kj::str(problem)); };
    auto modules = core.helpers.openModules();
    if (devices.all) {
      modules.coldplug(failed);
      return problems;
    }
    for (auto& modalias : devices.modaliases) {
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { modules.load(modalias); })) {
        failed(messageOf(*e));
      }
    }
    return problems;
  });
  for (auto& problem : problems) core.console.say(kj::str("warning: ", problem));
}

// --- disks that an administrator wipes

kj::Promise<UsesOfDevices> DiskAssembly::usesOfDevices() {
  auto uses = co_await core.uv.blocking([]() {
    UsesOfDevices found;
    found.devices = readBlockDevices();
    found.mountinfo = kj::str(readFile("/proc/self/mountinfo"));
    found.swaps = kj::str(readFile("/proc/swaps"));
    return found;
  });
  KJ_IF_MAYBE (node, state.mounted()) {
    uses.state = kj::str(*node);
    KJ_IF_MAYBE (partition, partitionOfMapping(*node)) uses.state = kj::str("/dev/", *partition);
  }
  for (auto volume : core.store.list<rpc::VolumeStatusSpec>()) {
    if (volume.getLocation().size() == 0) continue;
    uses.volumes.add(UsesOfDevices::Volume{kj::str(volume.id()), kj::str(volume.getLocation())});
  }
  KJ_IF_MAYBE (machine, core.configReader.tryMachine(core.store)) {
    for (auto volume : machine->getVolumes()) uses.labels.add(kj::str(volume.getId()));
    for (auto disk : machine->getDisks()) uses.userDisks.add(kj::str(disk.getDevice()));
  }
  co_return kj::mv(uses);
}

kj::Promise<void> DiskAssembly::wipe(kj::Vector<kj::String> names, bool zeroes,
                                     kj::Function<void(kj::StringPtr)> say) {
  auto report = [&](kj::StringPtr line) {
    core.console.say(line, Tone::kAlarm);
    say(line);
  };
  devicesToWipe(names, co_await usesOfDevices());
  for (auto& name : names) {
    // The wipe of the one before may have taken hours.
    auto paths = devicesToWipe(kj::arrayPtr(&name, 1), co_await usesOfDevices());
    co_await installer.run(
        [&](rpc::InstallRequest::Builder request) {
          auto wipe = request.initWipe();
          wipe.setDevice(paths[0]);
          wipe.setZeroes(zeroes);
        },
        report);
    report(kj::str("wiped ", paths[0]));
    // The kernel reports no event when the content of a device changes.
    co_await core.uv.blocking([uevent = kj::str("/sys/class/block/", name, "/uevent")]() {
      int fd = ::open(uevent.cStr(), O_WRONLY | O_CLOEXEC);
      if (fd < 0) return;  // a partition of a disk that was wiped is gone
      kj::AutoCloseFd file(fd);
      [[maybe_unused]] auto n = ::write(file, "change", 6);
    });
  }
}

// A node in a container has no devices.
kj::Own<Controller> DiskAssembly::imageCacheController() {
  ImageCacheController::Dependencies deps{
      .timer = core.timer,
      .enabled = [this](Store& store) -> kj::Maybe<bool> {
        return core.configReader.tryMachine(store).map([](config::Machine::Reader machine) {
          return machine.getFeatures().getImageCache().getLocalEnabled();
        });
      },
      .hasCache =
          [this](kj::StringPtr root) {
            return core.uv.blocking([folder = kj::str(root, "/", imagecache::kManifests)]() {
              return ::access(folder.cStr(), R_OK | X_OK) == 0;
            });
          },
      .open =
          [this](const Volume& volume) {
            auto type =
                volume.contains(FileSystem::kVfat) ? FileSystem::kVfat : FileSystem::kIso9660;
            return core.uv.blocking([node = volume.device.node(), type]() {
              return openFileSystem(node, type, MountAccess::kReadOnly);
            });
          },
      .attach =
          [this](kj::AutoCloseFd mount) {
            return core.uv.blocking([mount = kj::mv(mount)]() {
              makeDirectories(imagecache::kMediumMount);
              attach(mount, imagecache::kMediumMount);
            });
          },
      .unmount =
          [this]() {
            return core.uv.blocking([]() {
              if (!isMountPoint(imagecache::kMediumMount)) return;
              KJ_SYSCALL(umount2(imagecache::kMediumMount.cStr(), MNT_DETACH | UMOUNT_NOFOLLOW));
            });
          },
      .say = core.printInfo(),
      .next = []() { return kj::Promise<void>(kj::NEVER_DONE); }};
  if (!core.container) {
    deps.look =
        kj::Function<kj::Promise<kj::Vector<Volume>>()>([this]() { return volumes.look(); });
    deps.next = [events = kj::heap<DeviceEvents>(core.io.unixEventPort)]() mutable {
      return events->next();
    };
  }
  return kj::heap<ImageCacheController>(kj::mv(deps));
}

void DiskAssembly::addControllers() {
  core.controllers.add(imageCacheController());
  if (core.container) return;
  // A boot loads the drivers of present devices in its own order; a restarted brain does not know
  // which devices appeared meanwhile.
  bool after = core.process1.brainRestarts() > 0;
  hotplug = kj::heap<HotplugDrivers>(core.io.unixEventPort, core.timer, after,
                                     KJ_BIND_METHOD(*this, loadDrivers));
  core.controllers.add(discoveredVolumesOf(core.io.unixEventPort, core.timer, volumes));
  core.controllers.add(disksOf(core.io.unixEventPort, core.timer, core.uv));
  core.controllers.add(volumeControllerOf(
      core.io.unixEventPort, core.timer, [this](Store& store) -> kj::Promise<void> {
        KJ_IF_MAYBE (machine, core.configReader.tryMachine(store)) {
          constexpr auto kEvent = DataVolumes::Occasion::kEvent;
          if (namedUnused) return dataVolumes.reconcile(*machine, kEvent);
          namedUnused = true;
          return kj::joinPromises(
              kj::arr(dataVolumes.reconcile(*machine, kEvent), dataVolumes.nameUnused(*machine)));
        }
        return kj::READY_NOW;
      }));
  core.controllers.add(kj::heap<SwapStatusController>(core.timer));
  core.controllers.add(trimController());
  core.controllers.add(mountStatusOf(core.io.unixEventPort, core.timer, core.uv));
  core.controllers.add(oomController(
      {.timer = core.timer,
       .clock = core.clock,
       .memory = {},
       .readConfig = [this](Store& store) { return core.configReader.tryConfig(store); },
       .alarm = core.printAlarms(),
       .blocking = core.blocking()}));
  core.controllers.add(sensorsController(core.timer, hardwareReads));
  core.controllers.add(diskHealthController(
      core.timer, hardwareReads,
      requestsToDisks([this](int disk) { return core.helpers.ataStatus(disk); })));
}

}  // namespace talos::machined
