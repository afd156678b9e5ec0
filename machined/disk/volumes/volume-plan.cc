#include "machined/disk/volumes/volume-plan.h"

#include <string.h>

#include <algorithm>

#include "common/cel/volume-selectors.h"
#include "common/disk/gpt.h"
#include "common/disk/volume-labels.h"
#include "common/disk/volume-size.h"
#include "machined/disk/volumes/mount-table.h"

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

// Formats bytes with one decimal at most: "10 GiB", "1.5 GiB", "512 MiB".
kj::String binarySize(uint64_t bytes) {
  constexpr kj::StringPtr kUnits[] = {"MiB"_kj, "GiB"_kj, "TiB"_kj, "PiB"_kj};
  uint64_t unit = kMiB;
  size_t i = 0;
  while (i + 1 < kj::size(kUnits) && bytes >= unit * 1024) unit *= 1024, ++i;
  auto tenths = bytes % unit / (unit / 1024) * 10 / 1024;
  if (tenths == 0) return kj::str(bytes / unit, " ", kUnits[i]);
  return kj::str(bytes / unit, ".", tenths, " ", kUnits[i]);
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

kj::StringPtr transportOf(const DiskFacts& disk) {
  if (disk.name.startsWith("nvme")) return "nvme";
  if (disk.name.startsWith("vd")) return "virtio";
  if (disk.name.startsWith("mmcblk")) return "mmc";
  auto isOn = [&](const char* bus) { return strstr(disk.busPath.cStr(), bus) != nullptr; };
  if (isOn("/usb")) return "usb";
  if (isOn("/ata")) return "sata";
  if (isOn("/virtio")) return "virtio";
  return "";
}

// `path`: of the disk, which must outlive the result.
cel::DiskProperties propertiesOf(const DiskOfVolumes& disk, kj::StringPtr path) {
  auto& facts = disk.facts;
  return {.size = facts.bytes,
          .ioSize = facts.ioSize,
          .sectorSize = facts.sectorSize,
          .readOnly = disk.readOnly,
          .rotational = facts.type == rpc::Disk::Type::HDD,
          .model = facts.model,
          .serial = facts.serial,
          .modalias = facts.modalias,
          .wwid = facts.wwid,
          .uuid = facts.uuid,
          .busPath = facts.busPath,
          .subSystem = "/sys/class/block"_kj,
          .transport = transportOf(facts),
          .devPath = path,
          .systemDisk = disk.systemDisk};
}

bool selected(const cel::Program& selector, const DiskOfVolumes& disk) {
  auto path = kj::str("/dev/", disk.facts.name);
  return cel::selects(selector, propertiesOf(disk, path));
}

bool canBeExisting(const Volume& volume, kj::StringPtr mountinfo) {
  bool mountable = volume.contains(FileSystem::kXfs) || volume.contains(FileSystem::kExt4) ||
                   volume.contains(FileSystem::kVfat) || volume.contains(FileSystem::kIso9660) ||
                   volume.contains(FileSystem::kUdf);
  if (!mountable || isVolumeLabel(volume.device.partitionName)) return false;
  auto node = volume.device.node();
  for (auto& mount : deviceMounts(mountinfo)) {
    if (mount.source == node) return false;
  }
  return true;
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
  explicit Planner(kj::ArrayPtr<const DiskOfVolumes> disks) : disks(disks) {
    for (auto& disk : disks) {
      auto& own = taken.add();
      for (auto& p : disk.partitions) {
        own.add(DiskOfVolumes::Partition{kj::str(p.name), p.begin, p.bytes});
      }
    }
  }

  Placement place(StorageVolume::Reader volume) {
    Placement result{.volume = volume};
    auto id = volume.getId();
    auto unfinished = unfinishedVolume(id);
    unsigned found = 0;
    for (auto& disk : disks) {
      for (auto i : kj::indices(disk.partitions)) {
        auto& p = disk.partitions[i];
        bool complete = p.name == id;
        if (!complete && p.name != unfinished) continue;
        if (!complete && found > 0) continue;
        found += complete ? 1 : 0;
        result.kind = complete ? PlacementKind::kFound : PlacementKind::kUnfinished;
        result.disk = kj::str(disk.facts.name);
        result.number = static_cast<unsigned>(i + 1);
        result.offset = p.begin;
        result.bytes = p.bytes;
      }
    }
    if (found > 1) return failed(volume, kj::str("more than one partition is named ", id));
    if (result.kind == PlacementKind::kWaiting) return placeNew(volume);
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
  kj::Vector<kj::Vector<DiskOfVolumes::Partition>> taken;  // of each disk, with those to be made

  static Placement failed(StorageVolume::Reader volume, kj::String reason) {
    return {.volume = volume, .kind = PlacementKind::kFailed, .reason = kj::mv(reason)};
  }
  static Placement waiting(StorageVolume::Reader volume, kj::String reason) {
    return {.volume = volume, .reason = kj::mv(reason)};
  }

  Placement placeNew(StorageVolume::Reader volume) {
    auto compiled = cel::compileDiskSelector(volume.getSelector());
    KJ_IF_MAYBE (mistake, compiled.mistake) {
      return failed(volume, cel::render(volume.getSelector(), *mistake));
    }
    kj::Vector<kj::String> reasons;
    for (auto d : kj::indices(disks)) {
      auto& disk = disks[d];
      if (!selected(compiled.program, disk)) continue;
      auto refuse = [&](kj::String reason) {
        reasons.add(kj::str("/dev/", disk.facts.name, ": ", reason));
      };
      KJ_IF_MAYBE (reason, disk.unfit) {
        refuse(kj::str(*reason));
        continue;
      }
      if (disk.readOnly) {
        refuse(kj::str("it is read-only"));
        continue;
      }
      auto extent = largestFree(disk, taken[d]);
      auto bytes = sizeIn(volume.getSize(), extent.size());
      if (bytes == 0 || taken[d].size() >= kMostPartitionsOfTable) {
        refuse(kj::str("it has ", binarySize(extent.size()), " free, and ",
                       binarySize(volume.getSize().getLeast()), " are needed"));
        continue;
      }
      taken[d].add(DiskOfVolumes::Partition{kj::str(volume.getId()), extent.begin, bytes});
      return {.volume = volume,
              .kind = PlacementKind::kNew,
              .disk = kj::str(disk.facts.name),
              .number = static_cast<unsigned>(taken[d].size()),
              .offset = extent.begin,
              .bytes = bytes};
    }
    if (reasons.empty()) return waiting(volume, kj::str("its selector selects no disk"));
    return waiting(volume, kj::str("no disk can take it: ", kj::strArray(reasons, "; ")));
  }
};

}  // namespace

uint64_t sizeIn(config::VolumeSize::Reader size, uint64_t extent) {
  auto bytes = sizeWithin({size.getMost(), size.getMostPercent(), size.getLeavesMost()}, extent);
  return bytes < size.getLeast() ? 0 : bytes;
}

kj::Maybe<kj::String> unfitFor(const FoundOnDisk& found, size_t known, bool systemDisk) {
  size_t ours = 0;
  for (auto i : kj::indices(found.partitions)) {
    ours += isVolumeLabel(found.partitions[i]) || (systemDisk && i < kSystemPartitions);
  }
  bool gpt = false;
  KJ_IF_MAYBE (table, found.table) gpt = *table == "gpt";
  bool own = gpt && found.volumes.empty() && ours > 0 && ours == found.partitions.size() &&
             known == found.partitions.size();
  if (own) return nullptr;
  auto things = thingsOn(found);
  if (things.empty()) return nullptr;
  return kj::str("it holds ", kj::strArray(things, "; "));
}

kj::Vector<Placement> planVolumes(capnp::List<config::StorageVolume>::Reader volumes,
                                  kj::ArrayPtr<const DiskOfVolumes> disks) {
  kj::Vector<StorageVolume::Reader> wanted;
  for (auto volume : volumes) {
    auto kind = volume.getKind();
    if (kind != StorageVolume::Kind::DIRECTORY && kind != StorageVolume::Kind::EXISTING)
      wanted.add(volume);
  }
  std::sort(wanted.begin(), wanted.end(), comesFirst);
  Planner planner(disks);
  kj::Vector<Placement> plan;
  for (auto& volume : wanted) plan.add(planner.place(volume));
  for (auto& placement : plan) planner.grow(placement);
  return plan;
}

kj::Maybe<const Volume&> existingVolume(config::StorageVolume::Reader wanted,
                                        kj::ArrayPtr<const Volume> volumes,
                                        kj::ArrayPtr<const DiskOfVolumes> disks,
                                        kj::StringPtr mountinfo) {
  auto compiled = cel::compileVolumeSelector(wanted.getSelector());
  if (compiled.mistake != nullptr) return nullptr;
  for (auto& volume : volumes) {
    auto& device = volume.device;
    if (!canBeExisting(volume, mountinfo)) continue;
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
      if (cel::selects(compiled.program, properties, propertiesOf(disk, path))) return volume;
    }
  }
  return nullptr;
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
        if (p.growTo == 0) break;
        lines.add(kj::str("grows partition ", id, " on /dev/", p.disk, " from ",
                          binarySize(p.bytes), " to ", binarySize(p.growTo)));
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
