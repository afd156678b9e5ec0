#include "machined/disk/volumes/disk-controllers.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/map.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/fill-list.h"
#include "common/text/size.h"
#include "machined/disk/volumes/mount-table.h"
#include "machined/disk/volumes/swaps.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

// A new disk sends an event for each of its partitions; a pod changes a dozen mounts.
constexpr auto kDiskSettles = 1 * kj::SECONDS, kMountsSettle = 500 * kj::MILLISECONDS;
constexpr auto kSwapAges = 15 * kj::SECONDS;
constexpr kj::StringPtr kMountTable = "/proc/self/mountinfo"_kj;

bool bootIsOver(Store& store) {
  KJ_IF_MAYBE (status, store.tryGet<rpc::MachineStatusSpec>("machine")) {
    return status->getStage() == "running" || status->getStage() == "failed";
  }
  return false;
}

// After a failed boot or an installation, the node is not what its config describes.
bool isRunning(Store& store) {
  KJ_IF_MAYBE (status, store.tryGet<rpc::MachineStatusSpec>("machine")) {
    return status->getStage() == "running";
  }
  return false;
}

kj::StringPtr typeOf(const BlockDevice& device) {
  if (device.cdrom) return "cdrom";
  return device.whole ? "disk" : "partition";
}

void fillVolume(rpc::DiscoveredVolumeSpec::Builder out, const Volume& volume, bool hasTable) {
  auto& device = volume.device;
  out.setType(typeOf(device));
  out.setDevicePath(device.node());
  if (!device.whole) out.setParent(device.disk);
  if (device.mapping.size() > 0) out.setParent(device.openedFrom);
  out.setSize(device.bytes);
  out.setPrettySize(decimalSize(device.bytes));
  KJ_IF_MAYBE (content, volume.content) {
    out.setName(content->type == FileSystem::kLuks ? "luks"_kj : nameOf(content->type));
    out.setLabel(content->label);
  } else if (hasTable) {
    out.setName("gpt");
  }
  out.setPartitionLabel(device.partitionName);
  out.setOffset(device.begin);
  out.setReadOnly(device.readOnly);
  out.setProblem(volume.problem);
}

kj::StringPtr lastPart(kj::StringPtr path) {
  KJ_IF_MAYBE (slash, path.findLast('/')) return path.slice(*slash + 1);
  return path;
}

}  // namespace

void WokenController::wakeBy(kj::Function<void()> wake) {
  waking = wakeAtChanges(kj::mv(wake)).eagerlyEvaluate(nullptr);
}

kj::Promise<void> WokenController::wakeAtChanges(kj::Function<void()> wake) {
  for (;;) {
    co_await next();
    co_await timer.afterDelay(settles);
    wake();
  }
}

// --- volumes

DiscoveredVolumesController::DiscoveredVolumesController(kj::Timer& timer, Look look,
                                                         NextChange next)
    : WokenController(timer, kDiskSettles,
                      [this]() { return nextEvent().exclusiveJoin(again.wait()); }),
      timer(timer),
      look(kj::mv(look)),
      nextEvent(kj::mv(next)) {}

kj::Array<Controller::Input> DiscoveredVolumesController::inputs() const {
  return kj::arr(input<rpc::MachineStatusSpec>("machine"));
}
kj::Array<kj::StringPtr> DiscoveredVolumesController::outputs() const {
  return typeNames<rpc::DiscoveredVolumeSpec>();
}

kj::Promise<void> DiscoveredVolumesController::reconcile(Store& store) {
  if (!bootIsOver(store)) co_return;
  auto volumes = co_await look();
  // Only partitions of a GPT have names.
  kj::TreeSet<kj::String> withTable;
  for (auto& volume : volumes) {
    if (volume.device.partitionName.size() == 0) continue;
    withTable.upsert(kj::str(volume.device.disk), [](auto&, auto&&) {});
  }
  Outputs<rpc::DiscoveredVolumeSpec> outputs(name());
  bool silent = false;
  for (auto& volume : volumes) {
    bool hasTable = volume.device.whole && withTable.find(volume.device.name) != nullptr;
    fillVolume(outputs.add(volume.device.name), volume, hasTable);
    silent = silent || volume.isSilent();
  }
  outputs.apply(store);
  if (!silent) silence.reset();
  waiting = !silent ? kj::Promise<void>(kj::NEVER_DONE)
                    : timer.afterDelay(silence.next())
                          .then([this]() { again.raise(); })
                          .eagerlyEvaluate(nullptr);
}

kj::Own<Controller> discoveredVolumesOf(kj::UnixEventPort& port, kj::Timer& timer,
                                        Volumes& volumes) {
  return kj::heap<DiscoveredVolumesController>(
      timer,
      [&volumes]() -> kj::Promise<kj::Vector<Volume>> {
        auto found = co_await volumes.look();
        for (auto& open : co_await volumes.lookIntoOpen()) found.add(kj::mv(open));
        co_return kj::mv(found);
      },
      [events = kj::heap<DeviceEvents>(port)]() mutable { return events->next(); });
}

// --- disks

DisksController::DisksController(kj::Timer& timer, Look look, NextChange next)
    : WokenController(timer, kDiskSettles, kj::mv(next)), look(kj::mv(look)) {}

kj::Array<Controller::Input> DisksController::inputs() const {
  return kj::arr(input<rpc::MachineStatusSpec>("machine"));
}
kj::Array<kj::StringPtr> DisksController::outputs() const {
  return typeNames<rpc::DiskSpec, rpc::SystemDiskSpec>();
}

kj::Promise<void> DisksController::reconcile(Store& store) {
  if (!bootIsOver(store)) co_return;
  auto found = co_await look();
  Outputs<rpc::DiskSpec> disks(name());
  for (auto& disk : found.facts) {
    auto out = disks.add(disk.name);
    out.setSize(disk.bytes);
    out.setPrettySize(decimalSize(disk.bytes));
    out.setIoSize(disk.ioSize);
    out.setSectorSize(disk.sectorSize);
    out.setReadOnly(disk.readOnly);
    out.setTransport(disk.transport());
    out.setRotational(disk.type == rpc::Disk::Type::HDD);
    out.setWwid(disk.wwid);
    out.setModel(disk.model);
    out.setSerial(disk.serial);
    out.setModalias(disk.modalias);
    out.setUuid(disk.uuid);
    out.setBusPath(disk.busPath);
    out.setSubSystem("/sys/class/block");
    out.setDevPath(kj::str("/dev/", disk.name));
  }
  disks.apply(store);
  Outputs<rpc::SystemDiskSpec> systems(name());
  KJ_IF_MAYBE (disk, found.system) {
    auto out = systems.add("system-disk");
    out.setDiskId(*disk);
    out.setDevPath(kj::str("/dev/", *disk));
  }
  systems.apply(store);
}

kj::Own<Controller> disksOf(kj::UnixEventPort& port, kj::Timer& timer, UvLoop& uv) {
  auto read = []() {
    DisksController::Disks found{readDisks(), nullptr};
    for (auto& device : readBlockDevices()) {
      bool meta = !device.whole && device.partitionName == "META";
      if (meta && found.system == nullptr) found.system = kj::str(device.disk);
    }
    return found;
  };
  return kj::heap<DisksController>(
      timer, [&uv, read]() { return uv.blocking(read); },
      [events = kj::heap<DeviceEvents>(port)]() mutable { return events->next(); });
}

// --- the volumes of documents

VolumeController::VolumeController(kj::Timer& timer, Work work, NextChange next)
    : WokenController(timer, kDiskSettles, kj::mv(next)), work(kj::mv(work)) {}

kj::Array<Controller::Input> VolumeController::inputs() const {
  return kj::arr(input<rpc::MachineStatusSpec>("machine"),
                 input<rpc::MachineConfigSpec>("v1alpha1"), input<rpc::UpgradeStatusSpec>("node"));
}

kj::Promise<void> VolumeController::reconcile(Store& store) {
  if (!isRunning(store)) return kj::READY_NOW;
  return work(store);
}

kj::Own<Controller> volumeControllerOf(kj::UnixEventPort& port, kj::Timer& timer,
                                       VolumeController::Work work) {
  return kj::heap<VolumeController>(
      timer, kj::mv(work),
      [events = kj::heap<DeviceEvents>(port)]() mutable { return events->next(); });
}

SwapStatusController::SwapStatusController(kj::Timer& timer, kj::StringPtr table)
    : WokenController(timer, 0 * kj::SECONDS, [&timer]() { return timer.afterDelay(kSwapAges); }),
      table(kj::str(table)) {}

kj::Array<Controller::Input> SwapStatusController::inputs() const {
  return kj::arr(input<rpc::VolumeStatusSpec>());
}
kj::Array<kj::StringPtr> SwapStatusController::outputs() const {
  return typeNames<rpc::SwapStatusSpec>();
}

kj::Promise<void> SwapStatusController::reconcile(Store& store) {
  Outputs<rpc::SwapStatusSpec> outputs(name());
  for (auto& swap : swapsIn(readFile(table))) {
    auto out = outputs.add(lastPart(swap.device));
    out.setDevice(swap.device);
    out.setSize(swap.bytes);
    out.setPrettySize(decimalSize(swap.bytes));
    out.setUsed(swap.used);
    out.setPrettyUsed(decimalSize(swap.used));
    out.setPriority(swap.priority);
    out.setType(swap.type);
  }
  outputs.apply(store);
  return kj::READY_NOW;
}

// --- mounts

MountStatusController::MountStatusController(kj::Timer& timer, Read read, NextChange next)
    : WokenController(timer, kMountsSettle, kj::mv(next)), read(kj::mv(read)) {}

kj::Array<Controller::Input> MountStatusController::inputs() const {
  return kj::arr(input<rpc::VolumeStatusSpec>());
}
kj::Array<kj::StringPtr> MountStatusController::outputs() const {
  return typeNames<rpc::MountStatusSpec>();
}

kj::Promise<void> MountStatusController::reconcile(Store& store) {
  auto text = co_await read();
  Outputs<rpc::MountStatusSpec> outputs(name());
  for (auto& mount : deviceMounts(text)) {
    auto id = kj::str(lastPart(mount.source));
    bool encrypted = false;
    for (auto volume : store.list<rpc::VolumeStatusSpec>()) {
      if (volume.getMountLocation() != mount.source) continue;
      id = kj::str(volume.id());
      encrypted = volume.getEncryptionProvider().size() > 0;
    }
    auto out = outputs.add(id);
    out.setSource(mount.source);
    out.setTarget(mount.target);
    out.setFilesystemType(mount.type);
    fillTexts(out.initOptions(static_cast<unsigned>(mount.options.size())), mount.options);
    out.setEncrypted(encrypted);
  }
  outputs.apply(store);
}

// The kernel marks the open file of a table that has changed since the last wait.
MountEvents::MountEvents(kj::UnixEventPort& port) {
  int raw;
  KJ_SYSCALL(raw = open(kMountTable.cStr(), O_RDONLY | O_CLOEXEC));
  table = kj::AutoCloseFd(raw);
  observer = kj::heap<kj::UnixEventPort::FdObserver>(port, table.get(),
                                                     kj::UnixEventPort::FdObserver::OBSERVE_URGENT);
  changed = observer->whenUrgentDataAvailable().fork();
}

kj::Promise<void> MountEvents::next() {
  co_await KJ_ASSERT_NONNULL(changed).addBranch();
  changed = observer->whenUrgentDataAvailable().fork();
}

kj::Own<Controller> mountStatusOf(kj::UnixEventPort& port, kj::Timer& timer, UvLoop& uv) {
  return kj::heap<MountStatusController>(
      timer, [&uv]() { return uv.blocking([]() { return kj::str(readFile(kMountTable)); }); },
      [events = kj::heap<MountEvents>(port)]() mutable { return events->next(); });
}

}  // namespace talos::machined
