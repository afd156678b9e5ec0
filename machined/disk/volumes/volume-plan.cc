#include "machined/disk/volumes/volume-plan.h"

#include <string.h>

#include <algorithm>

#include "common/cel/volume-selectors.h"
#include "common/disk/gpt.h"
#include "common/disk/volume-labels.h"
#include "common/disk/volume-size.h"
#include "machined/disk/devices/system-disk.h"
#include "machined/disk/volumes/mount-table.h"
#include "machined/disk/volumes/mount-volume.h"

namespace talos::machined {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr size_t kSystemPartitions = 6, kMostPartitionsOfTable = 128;

using config::StorageVolume;

uint64_t down(uint64_t bytes) {
  return bytes / kMiB * kMiB;
}
uint64_t up(uint64_t bytes) {
  return down(bytes + kMiB - 1);
}

struct Extent {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
};

// The end of the last sector that a partition may have.
uint64_t endOf(const DiskOfVolumes& disk) {
  auto whole = disk.facts.bytes / kMiB;
  return whole < 2 ? 0 : (whole - 1) * kMiB;
}

// Returns the free space from `begin` to the next partition, or to the end.
Extent freeFrom(uint64_t begin, uint64_t end, kj::ArrayPtr<const DiskOfVolumes::Partition> taken) {
  for (auto& p : taken) {
    if (p.begin >= begin) end = kj::min(end, down(p.begin));
  }
  return {begin, kj::max(begin, end)};
}

Extent largestFree(const DiskOfVolumes& disk, kj::ArrayPtr<const DiskOfVolumes::Partition> taken) {
  auto end = endOf(disk);
  auto largest = freeFrom(gpt::kAlignment, end, taken);
  for (auto& p : taken) {
    auto after = freeFrom(up(p.begin + p.bytes), end, taken);
    if (after.size() > largest.size()) largest = after;
  }
  return largest;
}

// `path`: of the disk, which must outlive the result.
cel::DiskProperties propertiesOf(const DiskOfVolumes& disk, kj::StringPtr path) {
  auto properties = propertiesOf(disk.facts, path);
  properties.readOnly = disk.readOnly;
  properties.systemDisk = disk.systemDisk;
  return properties;
}

bool selected(const cel::Program& selector, const DiskOfVolumes& disk) {
  auto path = kj::str("/dev/", disk.facts.name);
  return cel::selects(selector, propertiesOf(disk, path));
}

bool isMountable(const Volume& volume) {
  return volume.contains(FileSystem::kXfs) || volume.contains(FileSystem::kExt4) ||
         volume.contains(FileSystem::kVfat) || volume.contains(FileSystem::kIso9660) ||
         volume.contains(FileSystem::kUdf);
}

// Returns why an existing volume is not mounted: "is the volume u-data"; nullptr if it can be.
kj::Maybe<kj::String> obstacleOf(const Volume& volume, const DiskOfVolumes& disk,
                                 kj::ArrayPtr<const kj::String> ours, kj::StringPtr mountinfo) {
  auto& device = volume.device;
  for (auto& label : ours) {
    if (device.partitionName == label) return kj::str("is the volume ", label);
  }
  KJ_IF_MAYBE (problem, disk.unread) {
    if (!device.whole) return kj::str("is on a disk that could not be read: ", *problem);
  }
  if (device.held) return kj::str("is in use by another device");
  auto node = device.node();
  for (auto& mount : deviceMounts(mountinfo)) {
    if (mount.source == node) return kj::str("is mounted at ", mount.target);
  }
  return nullptr;
}

// Returns true if the first of two volumes without a partition is to be made before the other.
bool comesFirst(const StorageVolume::Reader& a, const StorageVolume::Reader& b) {
  auto most = [](config::VolumeSize::Reader size) {
    bool absolute = size.getMost() > 0 && !size.getLeavesMost();
    return absolute ? size.getMost() : uint64_t{UINT64_MAX};
  };
  auto sizeA = a.getSize(), sizeB = b.getSize();
  if (sizeA.getGrows() != sizeB.getGrows()) return !sizeA.getGrows();
  uint64_t mostA = most(sizeA), mostB = most(sizeB);
  if (mostA != mostB) return mostA < mostB;
  return kj::StringPtr(a.getId()) < kj::StringPtr(b.getId());
}

// Plans one volume after the other; a partition that is to be made takes its space from the next.
class Planner {
 public:
  Planner(kj::ArrayPtr<const DiskOfVolumes> disks, kj::ArrayPtr<const VolumeRecord> records)
      : disks(disks), records(records) {
    for (auto& disk : disks) {
      auto& own = taken.add();
      for (auto& p : disk.partitions) {
        own.add(DiskOfVolumes::Partition{p.number, kj::str(p.name), p.begin, p.bytes});
      }
    }
  }

  static bool isRecorded(const kj::Maybe<const VolumeRecord&>& record,
                         const DiskOfVolumes::Partition& partition) {
    KJ_IF_MAYBE (known, record) {
      return known->partition.size() > 0 && partition.id == known->partition;
    }
    return false;
  }

  Placement place(StorageVolume::Reader volume) {
    Placement result{.volume = volume};
    auto id = volume.getId();
    auto record = recordOf(id);
    unsigned found = 0, recorded = 0;
    kj::Maybe<kj::String> unread;
    const DiskOfVolumes::Partition *chosen = nullptr, *own = nullptr;
    const DiskOfVolumes *on = nullptr, *ownOn = nullptr;
    for (auto& disk : disks) {
      for (auto& p : disk.partitions) {
        if (p.name != id) continue;
        if (disk.unread != nullptr) unread = unreadText(disk);
        if (p.unfinished && found > 0) continue;
        found += p.unfinished ? 0 : 1;
        chosen = &p, on = &disk;
        if (p.unfinished || !isRecorded(record, p)) continue;
        ++recorded;
        own = &p, ownOn = &disk;
      }
    }
    if (recorded == 1) {  // others of this name are copies, or of other nodes
      found = 1;
      unread = nullptr;
      chosen = own, on = ownOn;
    }
    if (found > 1) return failed(volume, kj::str("more than one partition is named ", id));
    KJ_IF_MAYBE (problem, unread) return waiting(volume, kj::mv(*problem));
    if (chosen == nullptr) return placeAbsent(volume);
    KJ_IF_MAYBE (known, record) {
      bool other = known->partition.size() > 0 && chosen->id != known->partition;
      if (other) {
        return waiting(volume, kj::str(textOfMissing(*known), "; /dev/", on->facts.name,
                                       " has another partition of this name"));
      }
    } else if (chosen->unfinished) {
      auto compiled = cel::compileDiskSelector(volume.getSelector());
      if (compiled.mistake == nullptr) {
        KJ_IF_MAYBE (problem, unreadOf(compiled.program)) return waiting(volume, kj::mv(*problem));
      }
    }
    result.kind = chosen->unfinished ? PlacementKind::kUnfinished : PlacementKind::kFound;
    result.disk = kj::str(on->facts.name);
    result.number = chosen->number;
    result.offset = chosen->begin;
    result.bytes = chosen->bytes;
    result.diskId = kj::str(on->id);
    result.partitionId = kj::str(chosen->id);
    return result;
  }

  // Lets a partition grow into what is free after it.
  void grow(Placement& placement) {
    auto size = placement.volume.getSize();
    if (placement.kind != PlacementKind::kFound || !size.getGrows()) return;
    for (auto d : kj::indices(disks)) {
      if (disks[d].facts.name != placement.disk) continue;
      auto end = placement.offset + placement.bytes;
      auto room = freeFrom(up(end), endOf(disks[d]), taken[d]).size();
      auto wanted = sizeIn(size, down(placement.bytes) + room);
      if (wanted >= placement.bytes + kMiB) placement.growTo = wanted;
    }
  }

 private:
  kj::ArrayPtr<const DiskOfVolumes> disks;
  kj::ArrayPtr<const VolumeRecord> records;
  kj::Vector<kj::Vector<DiskOfVolumes::Partition>> taken;  // of each disk, with those to be made

  static Placement failed(StorageVolume::Reader volume, kj::String reason) {
    return {.volume = volume, .kind = PlacementKind::kFailed, .reason = kj::mv(reason)};
  }
  static Placement waiting(StorageVolume::Reader volume, kj::String reason) {
    return {.volume = volume, .reason = kj::mv(reason)};
  }

  static kj::String unreadText(const DiskOfVolumes& disk) {
    return kj::str("/dev/", disk.facts.name,
                   " could not be read: ", KJ_ASSERT_NONNULL(disk.unread));
  }
  // Returns the problem of a disk that was not read, and so may have a volume with this selector.
  kj::Maybe<kj::String> unreadOf(const cel::Program& selector) const {
    for (auto& disk : disks) {
      if (disk.unread != nullptr && selected(selector, disk)) return unreadText(disk);
    }
    return nullptr;
  }
  kj::Maybe<const VolumeRecord&> recordOf(kj::StringPtr id) const {
    for (auto& record : records) {
      if (record.label == id) return record;
    }
    return nullptr;
  }

  // Places a volume without a partition.
  Placement placeAbsent(StorageVolume::Reader volume) {
    KJ_IF_MAYBE (record, recordOf(volume.getId())) {
      for (auto& disk : disks) {
        if (disk.unread != nullptr) return waiting(volume, unreadText(disk));
      }
      return waiting(volume, textOfMissing(*record));
    }
    return placeNew(volume);
  }

  // Returns why no new partition may be made on a disk, whatever its free space is.
  static kj::Maybe<kj::String> obstacleOn(const DiskOfVolumes& disk) {
    KJ_IF_MAYBE (reason, disk.unfit) return kj::str(*reason);
    if (disk.readOnly) return kj::str("it is read-only");
    if (disk.appeared) {
      return kj::str(
          "it appeared after the boot, or machined has restarted since, so it may be for a pod; to "
          "use it, apply the config again");
    }
    return nullptr;
  }

  Placement placeNew(StorageVolume::Reader volume) {
    auto compiled = cel::compileDiskSelector(volume.getSelector());
    KJ_IF_MAYBE (mistake, compiled.mistake) {
      return failed(volume, cel::render(volume.getSelector(), *mistake));
    }
    KJ_IF_MAYBE (problem, unreadOf(compiled.program)) return waiting(volume, kj::mv(*problem));
    kj::Vector<kj::String> reasons;
    for (auto d : kj::indices(disks)) {
      auto& disk = disks[d];
      if (!selected(compiled.program, disk)) continue;
      auto refuse = [&](kj::String reason) {
        reasons.add(kj::str("/dev/", disk.facts.name, ": ", reason));
      };
      KJ_IF_MAYBE (reason, obstacleOn(disk)) {
        refuse(kj::mv(*reason));
        continue;
      }
      auto extent = largestFree(disk, taken[d]);
      auto bytes = sizeIn(volume.getSize(), extent.size());
      if (bytes == 0 || taken[d].size() >= kMostPartitionsOfTable) {
        refuse(kj::str("it has ", binarySize(extent.size()), " free, and ",
                       binarySize(volume.getSize().getLeast()), " are needed"));
        continue;
      }
      auto number = static_cast<unsigned>(taken[d].size() + 1);
      taken[d].add(DiskOfVolumes::Partition{number, kj::str(volume.getId()), extent.begin, bytes});
      return {.volume = volume,
              .kind = PlacementKind::kNew,
              .disk = kj::str(disk.facts.name),
              .number = number,
              .offset = extent.begin,
              .bytes = bytes};
    }
    if (reasons.empty())
      return waiting(volume, kj::str("its selector selects no disk; see talosctl disks"));
    return waiting(volume, kj::str("no disk can take it: ", kj::strArray(reasons, "; ")));
  }
};

}  // namespace

kj::String binarySize(uint64_t bytes) {
  constexpr kj::StringPtr kUnits[] = {"MiB"_kj, "GiB"_kj, "TiB"_kj, "PiB"_kj};
  uint64_t unit = kMiB;
  size_t i = 0;
  while (i + 1 < kj::size(kUnits) && bytes >= unit * 1024) unit *= 1024, ++i;
  auto tenths = bytes % unit / (unit / 1024) * 10 / 1024;
  if (tenths == 0) return kj::str(bytes / unit, " ", kUnits[i]);
  return kj::str(bytes / unit, ".", tenths, " ", kUnits[i]);
}

bool selectsDisk(config::StorageVolume::Reader volume, const DiskOfVolumes& disk) {
  auto compiled = cel::compileDiskSelector(volume.getSelector());
  return compiled.mistake == nullptr && selected(compiled.program, disk);
}

uint64_t sizeIn(config::VolumeSize::Reader size, uint64_t extent) {
  auto bytes = sizeWithin({size.getMost(), size.getMostPercent(), size.getLeavesMost()}, extent);
  return bytes < size.getLeast() ? 0 : bytes;
}

kj::Maybe<kj::String> unfitFor(const FoundOnDisk& found, kj::ArrayPtr<const unsigned> known,
                               bool systemDisk) {
  size_t ours = 0;
  bool sameNumbers = found.places.size() == known.size(), consecutive = true;
  for (auto i : kj::indices(found.places)) {
    auto& place = found.places[i];
    ours += isVolumeLabel(place.name) || (systemDisk && i < kSystemPartitions);
    consecutive = consecutive && place.number == i + 1;
    sameNumbers = sameNumbers && known[i] == place.number;
  }
  bool gpt = false;
  KJ_IF_MAYBE (table, found.table) gpt = *table == "gpt";
  bool own =
      gpt && found.volumes.empty() && ours > 0 && ours == found.partitions.size() && sameNumbers;
  if (own && consecutive) return nullptr;
  if (own) return kj::str("the numbers of its partitions have a gap");
  auto things = thingsOn(found);
  if (things.empty()) return nullptr;
  return kj::str("it holds ", kj::strArray(things, "; "));
}

kj::Vector<Placement> planVolumes(capnp::List<config::StorageVolume>::Reader volumes,
                                  kj::ArrayPtr<const DiskOfVolumes> disks,
                                  kj::ArrayPtr<const VolumeRecord> records) {
  kj::Vector<StorageVolume::Reader> wanted;
  for (auto volume : volumes) {
    auto kind = volume.getKind();
    if (kind != StorageVolume::Kind::DIRECTORY && kind != StorageVolume::Kind::EXISTING)
      wanted.add(volume);
  }
  std::sort(wanted.begin(), wanted.end(), comesFirst);
  Planner planner(disks, records);
  kj::Vector<Placement> plan;
  for (auto& volume : wanted) plan.add(planner.place(volume));
  for (auto& placement : plan) planner.grow(placement);
  return plan;
}

kj::Maybe<const Volume&> existingVolume(config::StorageVolume::Reader wanted,
                                        kj::ArrayPtr<const Volume> volumes,
                                        kj::ArrayPtr<const DiskOfVolumes> disks,
                                        kj::ArrayPtr<const kj::String> ours,
                                        kj::StringPtr mountinfo, kj::Vector<kj::String>& leftOut) {
  auto compiled = cel::compileVolumeSelector(wanted.getSelector());
  if (compiled.mistake != nullptr) return nullptr;
  for (auto& volume : volumes) {
    auto& device = volume.device;
    if (!isMountable(volume)) continue;
    for (auto& disk : disks) {
      if (disk.facts.name != device.disk || (disk.systemDisk && !device.whole)) continue;
      auto path = kj::str("/dev/", device.disk), node = device.node();
      auto& content = KJ_ASSERT_NONNULL(volume.content);
      cel::VolumeProperties properties{.name = nameOf(content.type),
                                       .label = content.label,
                                       .partitionLabel = device.partitionName,
                                       .type = device.whole ? "disk"_kj : "partition"_kj,
                                       .devPath = node,
                                       .parentDevPath = path,
                                       .size = device.bytes,
                                       .offset = device.begin,
                                       .partitionIndex = partitionNumber(device)};
      if (!cel::selects(compiled.program, properties, propertiesOf(disk, path))) continue;
      KJ_IF_MAYBE (obstacle, obstacleOf(volume, disk, ours, mountinfo)) {
        leftOut.add(kj::str(node, " ", *obstacle));
        continue;
      }
      return volume;
    }
  }
  return nullptr;
}

kj::Maybe<kj::String> whyUnusable(const Volume& volume) {
  auto node = volume.device.node();
  if (volume.problem.size() > 0) return kj::str(node, " ", volume.problem);
  if (volume.device.readOnly) return kj::str(node, " is read-only");
  KJ_IF_MAYBE (content, volume.content) {
    bool good = content->type == FileSystem::kXfs || content->type == FileSystem::kLuks;
    if (!good) return kj::str(node, " holds ", nameOf(content->type), ", not xfs");
  }
  return nullptr;
}

kj::String textOfNoVolume(kj::ArrayPtr<const kj::String> leftOut) {
  return kj::str("its selector selects no volume that can be mounted",
                 leftOut.size() == 0 ? "" : ": ", kj::strArray(leftOut, "; "),
                 "; see talosctl get discoveredvolumes");
}

kj::Vector<kj::String> textOfExisting(capnp::List<config::StorageVolume>::Reader wanted,
                                      kj::ArrayPtr<const Volume> volumes,
                                      kj::ArrayPtr<const DiskOfVolumes> disks,
                                      kj::ArrayPtr<const kj::String> ours,
                                      kj::StringPtr mountinfo) {
  kj::Vector<kj::String> lines;
  for (auto volume : wanted) {
    if (volume.getKind() != StorageVolume::Kind::EXISTING) continue;
    auto mountpoint = volume.getMountpoint();
    if (isMountPoint(mountpoint, mountinfo)) continue;
    kj::Vector<kj::String> leftOut;
    KJ_IF_MAYBE (match, existingVolume(volume, volumes, disks, ours, mountinfo, leftOut)) {
      lines.add(kj::str("mounts ", match->device.node(), " at ", mountpoint));
    } else {
      lines.add(kj::str(volume.getId(), " waits: ", textOfNoVolume(leftOut)));
    }
  }
  return lines;
}

unsigned partitionNumber(const BlockDevice& device) {
  auto digits = device.name.slice(kj::min(device.disk.size(), device.name.size()));
  if (digits.startsWith("p")) digits = digits.slice(1);
  return digits.tryParseAs<unsigned>().orDefault(0);
}

kj::String documentOf(config::StorageVolume::Reader volume) {
  kj::StringPtr kind = "UserVolumeConfig";
  if (volume.getKind() == StorageVolume::Kind::RAW) kind = "RawVolumeConfig";
  if (volume.getKind() == StorageVolume::Kind::SWAP) kind = "SwapVolumeConfig";
  if (volume.getKind() == StorageVolume::Kind::EXISTING) kind = "ExistingVolumeConfig";
  return kj::str(kind, "[", volume.getId().slice(2), "]");
}

kj::Vector<kj::String> textOfPlan(kj::ArrayPtr<const Placement> plan) {
  kj::Vector<kj::String> lines;
  for (auto& p : plan) {
    auto id = p.volume.getId();
    bool raw = p.volume.getKind() == StorageVolume::Kind::RAW;  // it grows in any pass
    switch (p.kind) {
      case PlacementKind::kNew:
        lines.add(
            kj::str("makes partition ", id, " of ", binarySize(p.bytes), " on /dev/", p.disk));
        break;
      case PlacementKind::kUnfinished:
        lines.add(
            kj::str("completes partition ", id, " of ", binarySize(p.bytes), " on /dev/", p.disk));
        break;
      case PlacementKind::kFound:
        if (!p.inUse) {
          lines.add(kj::str("uses partition ", id, " of ", binarySize(p.bytes), " on /dev/", p.disk,
                            ", with its data"));
        }
        if (p.growTo == 0) break;
        lines.add(kj::str("grows partition ", id, " on /dev/", p.disk, " from ",
                          binarySize(p.bytes), " to ", binarySize(p.growTo),
                          p.inUse && !raw ? " at the next boot" : ""));
        break;
      case PlacementKind::kWaiting:
        lines.add(kj::str(id, " waits: ", p.reason));
        break;
      case PlacementKind::kFailed:
        lines.add(kj::str(id, " cannot be used: ", p.reason));
        break;
    }
  }
  return lines;
}

}  // namespace talos::machined
