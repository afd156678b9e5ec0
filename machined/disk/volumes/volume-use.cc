#include "machined/disk/volumes/volume-use.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/swap.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/disk/volume-labels.h"
#include "machined/disk/volumes/ephemeral-volume.h"
#include "machined/disk/volumes/swaps.h"
#include "machined/disk/volumes/unmount-volume.h"
#include "machined/disk/volumes/xfs-growth.h"
#include "machined/resources/store-records.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {

using Status = rpc::VolumeStatusSpec;

namespace {

constexpr int kDiscardOnce = 0x20000;  // SWAP_FLAG_DISCARD_ONCE of linux/swap.h
// A disk may discard all of a partition that becomes swap, which takes long; a pass waits for the
// usual time.
constexpr auto kSwapStarts = 10 * kj::SECONDS, kSwapStartLimit = 30 * kj::MINUTES;
constexpr auto kSwapStops = 30 * kj::SECONDS;
constexpr auto kOpenLimit = 5 * kj::SECONDS;  // of a disk that may hang

MountOptions optionsOf(StorageVolume::Reader volume) {
  return {.secure = !volume.getInsecure(),
          .accessTimes = !volume.getNoAccessTimes(),
          .readOnly = volume.getReadOnly()};
}

}  // namespace

void VolumeUse::taskFailed(kj::Exception&& e) {
  deps.say(kj::str("warning: ", messageOf(e)));
}

// A volume in use keeps its device and its mount point, which its release needs.
void VolumeUse::report(ConfigVolume volume, VolumePhase phase, kj::String reason) {
  kj::StringPtr id = volume.getId();
  VolumeReport out;
  KJ_IF_MAYBE (status, deps.store.tryGet<Status>(id)) {
    if (phase == VolumePhase::kFailed) return deps.reports.reportFailure(id, reason);
    auto target = status->getTarget(), node = status->getMountLocation();
    if ((target.size() > 0 && isMounted(target)) || (node.size() > 0 && isSwap(node))) {
      out.location = kj::str(status->getLocation());
      out.mountLocation = kj::str(node);
      out.target = kj::str(target);
      out.bytes = status->getSize();
    }
  }
  out.phase = phase;
  out.encrypted = volume.hasEncryption();
  out.error = kj::mv(reason);
  if (volume.getKind() == StorageVolume::Kind::DIRECTORY) out.type = "directory";
  deps.reports.report(id, out);
}

bool VolumeUse::isMounted(kj::StringPtr mountpoint) {
  return isMountPoint(mountpoint, readFile(deps.mountinfo));
}

bool VolumeUse::isInUse(ConfigVolume volume) {
  KJ_IF_MAYBE (status, deps.store.tryGet<Status>(volume.getId())) {
    auto node = status->getMountLocation();
    if (node.size() == 0) return false;
    if (volume.getKind() == StorageVolume::Kind::RAW) {
      return status->getPhase() == nameOf(VolumePhase::kReady);
    }
    KJ_IF_MAYBE (source, mountSource(volume.getMountpoint(), readFile(deps.mountinfo))) {
      return *source == node;
    }
    return isSwap(node);
  }
  return false;
}

bool VolumeUse::isUsedNow(ConfigVolume volume, kj::StringPtr node) {
  if (volume.getMountpoint().size() > 0) return isMounted(volume.getMountpoint());
  if (volume.getKind() == StorageVolume::Kind::SWAP) return isSwap(node);
  KJ_IF_MAYBE (status, deps.store.tryGet<Status>(volume.getId())) {
    return status->getPhase() == nameOf(VolumePhase::kReady);
  }
  return false;
}

// --- existing partitions

kj::Promise<void> VolumeUse::grow(const Placement& placement) {
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

kj::Promise<void> VolumeUse::attachTo(ConfigVolume volume, SystemPartitions::Mountable ready) {
  auto text = kj::str(volume.getId(), ": ", ready.node, " (", nameOf(ready.type), ") mounted at ",
                      volume.getMountpoint());
  co_await deps.attach(kj::mv(ready), kj::str(volume.getMountpoint()), optionsOf(volume),
                       volume.getSize().getGrows());
  deps.say(text);
}

kj::Promise<void> VolumeUse::mount(const Placement& placement, Volume volume) {
  kj::StringPtr id = placement.volume.getId();
  KJ_IF_MAYBE (reason, whyUnusable(volume)) fail(ErrorKind::kFailedPrecondition, kj::mv(*reason));
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

kj::Maybe<kj::String> VolumeUse::ownMount(ConfigVolume volume, const Volume& partition) {
  auto target = volume.getMountpoint();
  if (target.size() == 0) return nullptr;
  KJ_IF_MAYBE (source, mountSource(target, readFile(deps.mountinfo))) {
    auto& device = partition.device;
    bool own =
        *source == device.node() || *source == kj::str("/dev/mapper/", mappingOf(device.name));
    if (own) return kj::mv(*source);
    fail(ErrorKind::kFailedPrecondition, kj::str(target, " is used by ", *source));
  }
  return nullptr;
}

kj::Promise<void> VolumeUse::use(const Placement& placement, const FoundVolumes& found) {
  auto volume = placement.volume;
  auto id = kj::str(volume.getId()), target = kj::str(volume.getMountpoint());
  auto partition = copyOf(found.volumeOf(placement), id);
  noteDifferences(placement, found);
  KJ_IF_MAYBE (source, ownMount(volume, partition)) {
    setMountOptions(target, optionsOf(volume));
    KJ_IF_MAYBE (status, deps.store.tryGet<Status>(id)) {
      bool known = status->getPhase() == nameOf(VolumePhase::kReady) &&
                   status->getTarget() == target && status->getSize() == partition.device.bytes;
      if (known) co_return;
    }
    co_return reportUsed(id, target, partition, *source);
  }
  bool swap = volume.getKind() == StorageVolume::Kind::SWAP;
  bool active = swap && isSwap(partition.device.node());
  if (placement.growTo > 0 && !active && deps.held() == nullptr) {
    co_await grow(placement);
    partition = co_await partitionOf(deps.volumes, placement, id);
  }
  if (target.size() > 0) {
    co_return co_await mount(placement, kj::mv(partition));
  }
  if (swap && !active) {
    KJ_IF_MAYBE (content, partition.content) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(partition.device.node(), " holds ", nameOf(content->type), ", not swap"));
    }
    co_return co_await startSwap(id, kj::mv(partition));
  }
  auto node = partition.device.node();
  reportUsed(id, target, partition, node);
}

// Notes what of the document does not apply to the partition now.
void VolumeUse::noteDifferences(const Placement& placement, const FoundVolumes& found) {
  auto note = [&](kj::StringPtr key, kj::StringPtr text) {
    differences.add(kj::str(documentOf(placement.volume), ".", key, ": ", text));
  };
  for (auto& disk : found.disks) {
    if (disk.facts.name != placement.disk || selectsDisk(placement.volume, disk)) continue;
    note("provisioning.diskSelector",
         kj::str("the volume stays on /dev/", placement.disk, ", which it does not select"));
  }
  if (placement.growTo == 0) return;
  auto node = found.volumeOf(placement).device.node();
  auto target = placement.volume.getMountpoint();
  bool inUse = (target.size() > 0 && isMounted(target)) || isSwap(node);
  auto held = deps.held();
  if (!inUse && held == nullptr) return;
  auto size = binarySize(placement.growTo);
  KJ_IF_MAYBE (reason, held) {
    note("provisioning", kj::str("does not grow to ", size, " while ", *reason));
  } else {
    note("provisioning", kj::str("grows to ", size, " at the next boot"));
  }
}

void VolumeUse::reportUsed(kj::StringPtr id, kj::StringPtr target, const Volume& partition,
                           kj::StringPtr mountLocation) {
  VolumeReport out;
  out.phase = VolumePhase::kReady;
  out.location = partition.device.node();
  out.bytes = partition.device.bytes;
  out.mountLocation = kj::str(mountLocation);
  out.encrypted = partitionOfMapping(mountLocation) != nullptr;
  KJ_IF_MAYBE (content, partition.content) {
    auto type = out.encrypted ? FileSystem::kXfs : content->type;
    if (target.size() > 0) out.fileSystem = kj::str(nameOf(type));
  }
  out.target = kj::str(target);
  deps.reports.report(id, out);
}

// --- swap

bool VolumeUse::isSwap(kj::StringPtr node) {
  for (auto& swap : swapsIn(readFile(deps.swaps))) {
    if (swap.device == node) return true;
  }
  return false;
}

// Its header is written each time: swap holds nothing over a reboot.
kj::Promise<void> VolumeUse::startSwap(kj::StringPtr id, Volume partition) {
  if (starting.find(id) != nullptr) co_return;
  starting.insert(kj::str(id));
  auto turning = turnOn(kj::str(id), kj::mv(partition)).fork();
  tasks.add(turning.addBranch());
  co_await turning.addBranch().exclusiveJoin(deps.timer.afterDelay(kSwapStarts));
}

kj::Promise<void> VolumeUse::turnOn(kj::String id, Volume partition) {
  KJ_DEFER(starting.eraseMatch(id));
  auto node = partition.device.node();
  VolumeReport waits;
  waits.location = kj::str(node);
  waits.error = kj::str("the kernel is taking it into use as swap");
  deps.reports.report(id, waits);
  auto work = [&]() -> kj::Promise<void> {
    co_await deps.installer.run(
        [&node](rpc::InstallRequest::Builder request) { request.initMakeSwap().setDevice(node); });
    auto on = [path = kj::str(node)]() {
      return swapon(path.cStr(), SWAP_FLAG_DISCARD | kDiscardOnce) == 0 ? 0 : errno;
    };
    int error = (co_await apart(deps.timer, kSwapStartLimit, kj::mv(on))).orDefault(ETIMEDOUT);
    if (error != 0) fail(ErrorKind::kUnavailable, kj::str("swapon ", node, ": ", strerror(error)));
  };
  kj::Maybe<kj::Exception> failure;
  co_await kj::evalNow(work).catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) co_return deps.reports.reportFailure(id, messageOf(*e));
  deps.say(kj::str(node, " is used as swap"));
  reportUsed(id, "", partition, node);
}

// The kernel moves what is on it back into memory first. Resolves with the reason if it is still in
// use.
kj::Promise<kj::Maybe<kj::String>> VolumeUse::stopSwap(kj::String node) {
  KJ_IF_MAYBE (reason, whySwapStays(readFile(deps.swaps), readFile(deps.meminfo), node)) {
    co_return kj::mv(*reason);
  }
  auto off = [path = kj::str(node)]() { return swapoff(path.cStr()) == 0 ? 0 : errno; };
  KJ_IF_MAYBE (error, co_await apart(deps.timer, kSwapStops, kj::mv(off))) {
    if (*error == 0) co_return nullptr;
    if (*error != EINVAL) co_return kj::str("swapoff ", node, ": ", strerror(*error));
  }
  if (!isSwap(node)) co_return nullptr;
  co_return kj::str("the kernel is moving what is on ", node, " back into memory");
}

// --- volumes of others

kj::Promise<void> VolumeUse::mountExisting(ConfigVolume volume, const WantedVolumes& wanted,
                                           const FoundVolumes& found) {
  auto id = kj::str(volume.getId()), target = kj::str(volume.getMountpoint());
  auto text = kj::str(readFile(deps.mountinfo));
  KJ_IF_MAYBE (source, mountSource(target, text)) {
    KJ_IF_MAYBE (status, deps.store.tryGet<Status>(id)) {
      if (status->getMountLocation() == *source) {
        co_return setMountOptions(target, optionsOf(volume));
      }
    }
    fail(ErrorKind::kFailedPrecondition, kj::str(target, " is used by ", *source));
  }
  auto ours = ownLabels(wanted.machine.getVolumes(), found.records);
  kj::Vector<kj::String> leftOut;
  KJ_IF_MAYBE (match, existingVolume(volume, found.volumes, found.disks, ours, text, leftOut)) {
    auto type = KJ_ASSERT_NONNULL(match->content).type;
    auto node = match->device.node();
    co_await attachTo(volume, {kj::str(node), type});
    reportUsed(id, target, *match, node);
  } else {
    report(volume, VolumePhase::kWaiting, textOfNoVolume(leftOut));
  }
}

// The directory is mounted on itself.
kj::Promise<void> VolumeUse::bindDirectory(ConfigVolume volume) {
  auto path = volume.getMountpoint();
  auto text = kj::str(readFile(deps.mountinfo));
  KJ_IF_MAYBE (source, mountSource(path, text)) {
    auto var = mountSource(kVarPath, text).orDefault(kj::String());
    if (*source != var) {
      fail(ErrorKind::kFailedPrecondition, kj::str(path, " is used by ", *source));
    }
  } else {
    makeDirectories(path, 0755);
    KJ_SYSCALL(::mount(path.cStr(), path.cStr(), nullptr, MS_BIND, nullptr), path);
  }
  report(volume, VolumePhase::kReady, kj::String());
  deps.reports.reportTarget(volume.getId(), path);
  return kj::READY_NOW;
}

// --- the end of a volume

// Resolves with true if a mount in another namespace, or an open file, keeps the device in use.
kj::Promise<bool> VolumeUse::isOpenElsewhere(kj::StringPtr node) {
  auto open = [path = kj::str(node)]() {
    int fd = ::open(path.cStr(), O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno;
    close(fd);
    return 0;
  };
  return apart(deps.timer, kOpenLimit, kj::mv(open)).then([](kj::Maybe<int> error) {
    return error.orDefault(EBUSY) == EBUSY;
  });
}

// Resolves with the reason if it is still in use.
kj::Promise<kj::Maybe<kj::String>> VolumeUse::release(kj::StringPtr id) {
  kj::String target, node;
  KJ_IF_MAYBE (status, deps.store.tryGet<Status>(id)) {
    target = kj::str(status->getTarget());
    node = kj::str(status->getMountLocation());
  }
  kj::Maybe<kj::String> source;
  if (target.size() > 0) source = mountSource(target, readFile(deps.mountinfo));
  KJ_IF_MAYBE (mounted, source) {
    bool own = node.size() == 0 || *mounted == node;
    if (own) {
      KJ_IF_MAYBE (problem, co_await unmountWithin(deps.uv, deps.timer, kj::mv(target))) {
        co_return kj::mv(*problem);
      }
    }
  }
  if (node.size() == 0) co_return nullptr;
  if (isSwap(node)) co_return co_await stopSwap(kj::mv(node));
  if (co_await isOpenElsewhere(node)) co_return kj::str("a process still has ", node, " open");
  co_await deps.partitions.release(kj::mv(node), id);
  co_return nullptr;
}

AttachVolume attachVolumes(UvLoop& uv, kj::Timer& timer, SayLine say) {
  return [&uv, &timer, say = kj::mv(say)](SystemPartitions::Mountable ready, kj::String target,
                                          MountOptions options,
                                          bool grows) mutable -> kj::Promise<void> {
    struct Opened {
      kj::AutoCloseFd mount;
      kj::Maybe<kj::Exception> notGrown;
    };
    auto opening = uv.blocking([node = kj::str(ready.node), type = ready.type, options, grows]() {
      auto access = options.readOnly ? MountAccess::kReadOnly : MountAccess::kReadWrite;
      Opened opened{openFileSystem(node, type, access, MountUse::kPrograms), nullptr};
      if (grows && type == FileSystem::kXfs) {  // a failure leaves its size unchanged
        opened.notGrown =
            kj::runCatchingExceptions([&]() { growXfs(opened.mount, deviceSize(node)); });
      }
      setMountOptions(opened.mount.get(), options);
      return opened;
    });
    return untilMounted(timer, kj::mv(ready.node), kj::mv(opening), say)
        .then([target = kj::mv(target), &say](Opened opened) {
          KJ_IF_MAYBE (e, opened.notGrown) {
            say(kj::str("warning: ", target, ": its file system cannot be grown: ", messageOf(*e)));
          }
          makeDirectories(target, 0755);
          attach(opened.mount, target);
        });
  };
}

}  // namespace talos::machined
