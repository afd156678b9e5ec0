#include "machined/disk/volumes/data-volumes.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <sys/mount.h>
#include <sys/swap.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/disk/volume-labels.h"
#include "machined/disk/volumes/swaps.h"
#include "machined/disk/volumes/unmount-volume.h"
#include "machined/disk/volumes/xfs-growth.h"
#include "machined/resources/store-records.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {

using config::StorageVolume;
using Status = rpc::VolumeStatusSpec;

namespace {

constexpr int kDiscardOnce = 0x20000;  // SWAP_FLAG_DISCARD_ONCE of linux/swap.h

// Returns true for the id of a volume that a document describes.
bool isOfDocument(kj::StringPtr id) {
  return isVolumeLabel(id) || id.startsWith("e-");
}

Encryption encryptionOf(StorageVolume::Reader volume) {
  if (!volume.hasEncryption()) return nullptr;
  return volume.getEncryption();
}

MountOptions optionsOf(StorageVolume::Reader volume) {
  return {.secure = !volume.getInsecure(),
          .accessTimes = !volume.getNoAccessTimes(),
          .readOnly = volume.getReadOnly()};
}

Volume copyOf(const Volume& volume, kj::StringPtr name) {
  Volume copy;
  auto& device = volume.device;
  copy.device.name = kj::str(device.name);
  copy.device.disk = kj::str(device.disk);
  copy.device.partitionName = kj::str(name);
  copy.device.begin = device.begin;
  copy.device.bytes = device.bytes;
  copy.device.whole = device.whole;
  copy.device.readOnly = device.readOnly;
  copy.device.sequence = device.sequence;
  KJ_IF_MAYBE (content, volume.content) {
    copy.content = Superblock{content->type, kj::str(content->label)};
  }
  copy.problem = kj::str(volume.problem);
  return copy;
}

kj::Vector<const Volume*> partitionsOn(kj::ArrayPtr<const Volume> volumes, kj::StringPtr disk) {
  kj::Vector<const Volume*> found;
  for (auto& v : volumes) {
    if (!v.device.whole && v.device.disk == disk) found.add(&v);
  }
  return found;
}

// Fills in what is on a disk, of which `found` is the content by its own table: while one of its
// partitions is in use, the kernel does not learn the names of others.
void fillPartitions(DiskOfVolumes& out, kj::ArrayPtr<const Volume* const> known,
                    const FoundOnDisk& found) {
  out.hasTable = found.table != nullptr;
  bool named = found.partitions.size() == known.size();
  for (auto i : kj::indices(known)) {
    auto& device = known[i]->device;
    if (partitionNumber(device) != i + 1) {
      out.unfit = kj::str("its partitions have no consecutive numbers");
      out.partitions.clear();
      return;
    }
    out.partitions.add(DiskOfVolumes::Partition{
        kj::str(named ? found.partitions[i] : device.partitionName), device.begin, device.bytes});
  }
}

}  // namespace

struct DataVolumes::Wanted {
  SecretMessage message;
  config::Machine::Reader machine;

  explicit Wanted(config::Machine::Reader from) {
    auto copy = message.initRoot<config::Machine>();
    copy.setVolumes(from.getVolumes());
    copy.setDisks(from.getDisks());
    machine = copy.asReader();
  }
  bool has(kj::StringPtr id) const {
    for (auto volume : machine.getVolumes()) {
      if (volume.getId() == id) return true;
    }
    return false;
  }
  bool needsDisks() const {
    for (auto volume : machine.getVolumes()) {
      if (volume.getKind() != StorageVolume::Kind::DIRECTORY) return true;
    }
    return false;
  }
};

struct DataVolumes::Found {
  kj::Vector<Volume> volumes;
  kj::Vector<DiskOfVolumes> disks;
  kj::Vector<Placement> plan;
  kj::TreeMap<kj::String, kj::String> failures;  // of volumes, by their ids

  const Volume& volumeOf(const Placement& placement) const {
    for (auto& v : volumes) {
      if (!v.device.whole && v.device.disk == placement.disk &&
          partitionNumber(v.device) == placement.number) {
        return v;
      }
    }
    fail(ErrorKind::kUnavailable,
         kj::str("partition ", placement.number, " of /dev/", placement.disk, " does not appear"));
  }
};

bool DataVolumes::isMounted(kj::StringPtr mountpoint) {
  return isMountPoint(mountpoint, readFile(deps.mountinfo));
}

void DataVolumes::report(ConfigVolume volume, VolumePhase phase, kj::String reason) {
  VolumeReport out;
  out.phase = phase;
  out.encrypted = volume.hasEncryption();
  out.error = kj::mv(reason);
  if (volume.getKind() == StorageVolume::Kind::DIRECTORY) out.type = "directory";
  deps.reports.report(volume.getId(), out);
}

// --- the disks as they are

kj::Promise<kj::Own<DataVolumes::Found>> DataVolumes::look(const Wanted& wanted) {
  auto found = kj::heap<Found>();
  if (!wanted.needsDisks()) co_return kj::mv(found);
  found->volumes = co_await deps.volumes.look();
  auto facts = co_await deps.disks();
  auto state = deps.stateDevice().orDefault(kj::String());
  KJ_IF_MAYBE (partition, partitionOfMapping(state)) state = kj::str("/dev/", *partition);
  for (auto& disk : facts) {
    auto known = partitionsOn(found->volumes, disk.name);
    auto& out = found->disks.add();
    out.facts = kj::mv(disk);
    for (auto& v : found->volumes) {
      if (v.device.whole && v.device.name == out.facts.name) out.readOnly = v.device.readOnly;
    }
    for (auto* v : known) out.systemDisk = out.systemDisk || v->device.node() == state;
    auto path = kj::str("/dev/", out.facts.name);
    auto looking = kj::evalNow([&]() { return deps.look(path); });
    co_await looking.then(
        [&](FoundOnDisk&& content) {
          out.unfit = unfitFor(content, known.size(), out.systemDisk);
          fillPartitions(out, known, content);
        },
        [&](kj::Exception&& e) { out.unfit = messageOf(e); });
    for (auto named : wanted.machine.getDisks()) {
      if (named.getDevice() == path) out.unfit = kj::str("machine.disks names it");
    }
  }
  found->plan = planVolumes(wanted.machine.getVolumes(), found->disks);
  co_return kj::mv(found);
}

kj::Promise<kj::Vector<kj::String>> DataVolumes::plan(config::Machine::Reader machine) {
  Wanted wanted(machine);
  auto found = co_await look(wanted);
  auto lines = textOfPlan(found->plan);
  for (auto& id : others(wanted)) {
    KJ_IF_MAYBE (status, deps.store.tryGet<Status>(id)) {
      lines.add(kj::str("stops the use of ", id, "; its data stay on ", status->getLocation()));
    }
  }
  co_return kj::mv(lines);
}

// --- new partitions

kj::Promise<Volume> DataVolumes::partitionOf(const Placement& placement, kj::StringPtr name) {
  Found found;
  found.volumes = co_await deps.volumes.look();
  co_return copyOf(found.volumeOf(placement), name);
}

kj::Promise<void> DataVolumes::make(const Placement& placement) {
  kj::StringPtr id = placement.volume.getId();
  bool swap = placement.volume.getKind() == StorageVolume::Kind::SWAP;
  co_await deps.partitions.closeUnused();
  co_await deps.installer.run([&](rpc::InstallRequest::Builder request) {
    auto add = request.initAddPartition();
    add.setDisk(kj::str("/dev/", placement.disk));
    add.setName(id);
    add.setOffset(placement.offset);
    add.setSize(placement.bytes);
    add.setSwap(swap);
  });
  auto volume = co_await partitionOf(placement, unfinishedVolume(id));
  volume.content = nullptr;  // its head was zeroed
  if (placement.volume.getKind() == StorageVolume::Kind::PARTITION) {
    auto ready = co_await deps.partitions.prepare(volume, id, encryptionOf(placement.volume));
    // While it is open, the kernel cannot learn its name.
    co_await deps.partitions.release(kj::mv(ready.node), id);
  }
  co_await finish(placement);
  deps.alarm(kj::str(id, ": ", volume.device.node(), " was made"));
}

kj::Promise<void> DataVolumes::finish(const Placement& placement) {
  return deps.installer
      .run([&placement](rpc::InstallRequest::Builder request) {
        auto finish = request.initFinishPartition();
        finish.setDisk(kj::str("/dev/", placement.disk));
        finish.setName(placement.volume.getId());
      })
      .ignoreResult();
}

// Makes one volume after the other, each by a new plan. A disk that cannot be used is left out of
// the following plans.
kj::Promise<kj::Own<DataVolumes::Found>> DataVolumes::makeMissing(const Wanted& wanted) {
  kj::TreeMap<kj::String, kj::String> failures, refused;
  for (;;) {
    auto found = co_await look(wanted);
    for (auto& disk : found->disks) {
      KJ_IF_MAYBE (reason, refused.find(disk.facts.name)) disk.unfit = kj::str(*reason);
    }
    if (refused.size() > 0) found->plan = planVolumes(wanted.machine.getVolumes(), found->disks);
    const Placement* next = nullptr;
    for (auto& p : found->plan) {
      bool missing = p.kind == PlacementKind::kNew || p.kind == PlacementKind::kUnfinished;
      if (missing && failures.find(p.volume.getId()) == nullptr) {
        next = &p;
        break;
      }
    }
    if (next == nullptr) {
      found->failures = kj::mv(failures);
      co_return kj::mv(found);
    }
    report(next->volume, VolumePhase::kWaiting, kj::str("it is being made"));
    kj::Maybe<kj::Exception> failure;
    co_await kj::evalNow([&]() { return make(*next); }).catch_([&](kj::Exception&& e) {
      failure = kj::mv(e);
    });
    KJ_IF_MAYBE (e, failure) {
      bool other = next->kind == PlacementKind::kNew &&
                   kindOf(*e) == ErrorKind::kFailedPrecondition &&
                   refused.find(next->disk) == nullptr;
      if (other) {
        refused.insert(kj::str(next->disk), messageOf(*e));
      } else {
        failures.insert(kj::str(next->volume.getId()), messageOf(*e));
      }
    }
  }
}

// --- existing partitions

kj::Promise<void> DataVolumes::grow(const Placement& placement) {
  return deps.installer
      .run([&placement](rpc::InstallRequest::Builder request) {
        auto grow = request.initGrowPartition();
        grow.setDisk(kj::str("/dev/", placement.disk));
        grow.setName(placement.volume.getId());
        grow.setSize(placement.growTo);
      })
      .then(
          [this, &placement](bool) {
            deps.alarm(kj::str(placement.volume.getId(), ": its partition on /dev/", placement.disk,
                               " was grown"));
          },
          [this, &placement](kj::Exception&& e) {
            deps.say(kj::str("warning: ", placement.volume.getId(),
                             ": cannot be grown: ", messageOf(e)));
          });
}

kj::Promise<void> DataVolumes::attachTo(ConfigVolume volume, SystemPartitions::Mountable ready) {
  auto text = kj::str(volume.getId(), ": ", ready.node, " (", nameOf(ready.type), ") mounted at ",
                      volume.getMountpoint());
  co_await deps.attach(kj::mv(ready), kj::str(volume.getMountpoint()), optionsOf(volume),
                       volume.getSize().getGrows());
  deps.say(text);
}

kj::Promise<void> DataVolumes::mount(const Placement& placement, Volume volume) {
  kj::StringPtr id = placement.volume.getId();
  auto node = volume.device.node();
  if (volume.problem.size() > 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str(node, " ", volume.problem));
  }
  if (volume.device.readOnly) {
    fail(ErrorKind::kFailedPrecondition, kj::str(node, " is read-only"));
  }
  KJ_IF_MAYBE (content, volume.content) {
    bool good = content->type == FileSystem::kXfs || content->type == FileSystem::kLuks;
    if (!good) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(node, " holds ", nameOf(content->type), ", not xfs"));
    }
  } else if (!placement.volume.hasEncryption()) {
    // Someone has emptied it: it is made again if all of its head is zeros, else refused.
    co_await make(placement);
    volume = co_await partitionOf(placement, id);
  }
  auto ready = co_await deps.partitions.prepare(volume, id, encryptionOf(placement.volume));
  auto opened = kj::str(ready.node);
  kj::Maybe<kj::Exception> failure;
  co_await kj::evalNow([&]() {
    return attachTo(placement.volume, kj::mv(ready));
  }).catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    co_await deps.partitions.release(kj::mv(opened), id);
    kj::throwFatalException(kj::mv(*e));
  }
  deps.reports.reportTarget(id, placement.volume.getMountpoint());
}

kj::Promise<void> DataVolumes::use(const Placement& placement, const Found& found) {
  auto volume = placement.volume;
  bool bare = volume.getMountpoint().size() == 0;
  if (!bare && isMounted(volume.getMountpoint())) {
    co_return setMountOptions(volume.getMountpoint(), optionsOf(volume));
  }
  auto partition = copyOf(found.volumeOf(placement), volume.getId());
  bool active = volume.getKind() == StorageVolume::Kind::SWAP && isSwap(partition.device.node());
  if (placement.growTo > 0 && !active) {
    co_await grow(placement);
    partition = co_await partitionOf(placement, volume.getId());
  }
  if (!bare) co_return co_await mount(placement, kj::mv(partition));
  if (volume.getKind() == StorageVolume::Kind::SWAP && !active) {
    co_await startSwap(partition.device.node());
  }
  reportUsed(volume, partition);
}

void DataVolumes::reportUsed(ConfigVolume volume, const Volume& partition) {
  VolumeReport out;
  out.phase = VolumePhase::kReady;
  out.location = partition.device.node();
  out.bytes = partition.device.bytes;
  out.mountLocation = partition.device.node();
  KJ_IF_MAYBE (content, partition.content) {
    if (volume.getMountpoint().size() > 0) out.fileSystem = kj::str(nameOf(content->type));
  }
  out.target = kj::str(volume.getMountpoint());
  deps.reports.report(volume.getId(), out);
}

// --- swap

bool DataVolumes::isSwap(kj::StringPtr node) {
  for (auto& swap : swapsIn(readFile(deps.swaps))) {
    if (swap.device == node) return true;
  }
  return false;
}

// Its header is written each time: swap holds nothing over a reboot.
kj::Promise<void> DataVolumes::startSwap(kj::String node) {
  co_await deps.installer.run(
      [&node](rpc::InstallRequest::Builder request) { request.initMakeSwap().setDevice(node); });
  co_await deps.uv.blocking([node = kj::str(node)]() {
    KJ_SYSCALL(swapon(node.cStr(), SWAP_FLAG_DISCARD | kDiscardOnce), node);
  });
  deps.say(kj::str(node, " is used as swap"));
}

// The kernel moves what is on it back into memory first.
kj::Promise<void> DataVolumes::stopSwap(kj::String node) {
  return deps.uv.blocking([node = kj::mv(node)]() { KJ_SYSCALL(swapoff(node.cStr()), node); });
}

// --- volumes of others

kj::Promise<void> DataVolumes::mountExisting(ConfigVolume volume, const Found& found) {
  if (isMounted(volume.getMountpoint())) {
    co_return setMountOptions(volume.getMountpoint(), optionsOf(volume));
  }
  auto text = kj::str(readFile(deps.mountinfo));
  KJ_IF_MAYBE (match, existingVolume(volume, found.volumes, found.disks, text)) {
    auto type = KJ_ASSERT_NONNULL(match->content).type;
    co_await attachTo(volume, {match->device.node(), type});
    reportUsed(volume, *match);
  } else {
    report(volume, VolumePhase::kWaiting,
           kj::str("its selector selects no volume that can be mounted"));
  }
}

kj::Promise<void> DataVolumes::bindDirectory(ConfigVolume volume) {
  auto path = volume.getMountpoint();
  if (!isMounted(path)) {
    makeDirectories(path, 0755);
    KJ_SYSCALL(::mount(path.cStr(), path.cStr(), nullptr, MS_BIND, nullptr), path);
  }
  report(volume, VolumePhase::kReady, kj::String());
  deps.reports.reportTarget(volume.getId(), path);
  return kj::READY_NOW;
}

// --- the end of a volume

// Resolves with false if it is in use.
kj::Promise<bool> DataVolumes::release(kj::StringPtr id) {
  kj::String target, node;
  KJ_IF_MAYBE (status, deps.store.tryGet<Status>(id)) {
    target = kj::str(status->getTarget());
    node = kj::str(status->getMountLocation());
  }
  if (target.size() > 0 && isMounted(target)) {
    KJ_IF_MAYBE (problem, co_await unmountWithin(deps.uv, deps.timer, kj::mv(target))) {
      deps.say(kj::str("warning: ", id, ": ", *problem));
      co_return false;
    }
  }
  if (node.size() > 0 && isSwap(node)) {
    bool stopped = true;
    co_await stopSwap(kj::str(node)).catch_([&](kj::Exception&& e) {
      deps.say(kj::str("warning: ", id, ": ", messageOf(e)));
      stopped = false;
    });
    co_return stopped;
  }
  if (node.size() > 0) co_await deps.partitions.release(kj::mv(node), id);
  co_return true;
}

// Returns the volumes that are in use and have no document any more.
kj::Vector<kj::String> DataVolumes::others(const Wanted& wanted) {
  kj::Vector<kj::String> ids;
  for (auto status : deps.store.list<Status>()) {
    if (isOfDocument(status.id()) && !wanted.has(status.id())) ids.add(kj::str(status.id()));
  }
  return ids;
}

kj::Promise<void> DataVolumes::removeOthers(const Wanted& wanted) {
  for (auto& id : others(wanted)) {
    kj::String place;
    KJ_IF_MAYBE (status, deps.store.tryGet<Status>(id)) place = kj::str(status->getLocation());
    if (!co_await release(id)) {
      deps.reports.reportFailure(id, "its document was removed, and it is still in use");
      continue;
    }
    dropRecord<Status>(deps.store, id);
    if (place.size() == 0) continue;
    deps.alarm(kj::str(
        id, ": not used any more, because its document was removed; the data stay on ", place));
  }
}

kj::Promise<void> DataVolumes::unmountAll() {
  kj::Vector<kj::String> all;
  for (auto status : deps.store.list<Status>()) {
    if (isOfDocument(status.id())) all.add(kj::str(status.id()));
  }
  for (auto& id : all) (void)co_await release(id);
}

kj::Vector<kj::String> DataVolumes::mounted() {
  kj::Vector<kj::String> targets;
  for (auto status : deps.store.list<Status>()) {
    bool partition = isOfDocument(status.id()) && status.getType() == "partition";
    if (partition && status.getTarget().size() > 0) targets.add(kj::str(status.getTarget()));
  }
  return targets;
}

// --- a pass

kj::Promise<void> DataVolumes::pass(kj::Own<Wanted> wanted) {
  co_await removeOthers(*wanted);
  for (auto volume : wanted->machine.getVolumes()) {
    if (volume.getKind() != StorageVolume::Kind::DIRECTORY) continue;
    co_await kj::evalNow([&]() { return bindDirectory(volume); }).catch_([&](kj::Exception&& e) {
      report(volume, VolumePhase::kFailed, messageOf(e));
    });
  }
  auto found = co_await makeMissing(*wanted);
  for (auto& p : found->plan) {
    KJ_IF_MAYBE (reason, found->failures.find(p.volume.getId())) {
      report(p.volume, VolumePhase::kFailed, kj::str(*reason));
      continue;
    }
    if (p.kind != PlacementKind::kFound) {
      bool failed = p.kind == PlacementKind::kFailed;
      report(p.volume, failed ? VolumePhase::kFailed : VolumePhase::kWaiting, kj::str(p.reason));
      continue;
    }
    co_await kj::evalNow([&]() { return use(p, *found); }).catch_([&](kj::Exception&& e) {
      report(p.volume, VolumePhase::kFailed, messageOf(e));
    });
  }
  for (auto volume : wanted->machine.getVolumes()) {
    if (volume.getKind() != StorageVolume::Kind::EXISTING) continue;
    co_await kj::evalNow([&]() {
      return mountExisting(volume, *found);
    }).catch_([&](kj::Exception&& e) { report(volume, VolumePhase::kFailed, messageOf(e)); });
  }
}

kj::Promise<void> DataVolumes::reconcile(config::Machine::Reader machine) {
  auto wanted = kj::heap<Wanted>(machine);
  last = last.addBranch()
             .then([this, wanted = kj::mv(wanted)]() mutable { return pass(kj::mv(wanted)); })
             .catch_([this](kj::Exception&& e) {
               deps.say(kj::str("warning: the volumes of the config: ", messageOf(e)));
             })
             .eagerlyEvaluate(nullptr)
             .fork();
  return last.addBranch();
}

AttachVolume attachVolumes(UvLoop& uv, kj::Timer& timer, SayLine say) {
  return [&uv, &timer, say = kj::mv(say)](SystemPartitions::Mountable ready, kj::String target,
                                          MountOptions options,
                                          bool grows) mutable -> kj::Promise<void> {
    auto opening = uv.blocking([node = kj::str(ready.node), type = ready.type, options, grows]() {
      auto access = options.readOnly ? MountAccess::kReadOnly : MountAccess::kReadWrite;
      auto opened = openFileSystem(node, type, access, MountUse::kPrograms);
      // A failure leaves its size unchanged.
      if (grows && type == FileSystem::kXfs) {
        (void)kj::runCatchingExceptions([&]() { growXfs(opened, deviceSize(node)); });
      }
      setMountOptions(opened.get(), options);
      return opened;
    });
    return untilMounted(timer, kj::mv(ready.node), kj::mv(opening), say)
        .then([target = kj::mv(target)](kj::AutoCloseFd opened) {
          makeDirectories(target, 0755);
          attach(opened, target);
        });
  };
}

kj::Vector<kj::String> volumesNotInEffect(Store& store, config::Machine::Reader machine,
                                          bool container) {
  kj::Vector<kj::String> texts;
  for (auto volume : machine.getVolumes()) {
    auto document = documentOf(volume);
    if (container) {
      texts.add(kj::str(document, ": a node in a container has no disks"));
      continue;
    }
    KJ_IF_MAYBE (status, store.tryGet<Status>(volume.getId())) {
      if (status->getPhase() == nameOf(VolumePhase::kReady)) continue;
      auto reason = status->getErrorMessage();
      texts.add(kj::str(document, ": ", reason.size() > 0 ? reason : status->getPhase()));
    } else {
      texts.add(kj::str(document, ": not made yet"));
    }
  }
  return texts;
}

}  // namespace talos::machined
