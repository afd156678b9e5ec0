#include "machined/disk/installer/volume-partitions.h"

#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"
#include "common/disk/empty-partition.h"
#include "common/disk/volume-labels.h"
#include "machined/disk/installer/locked-disk.h"

namespace talos::install {
namespace {

constexpr size_t kMostPartitions = 128, kReadAtOnce = 1u << 20;
constexpr kj::StringPtr kSwapMagic = "SWAPSPACE2"_kj;

[[noreturn]] void refusePartition(kj::StringPtr problem) {
  fail(ErrorKind::kFailedPrecondition, problem);
}

gpt::Table copyOf(const gpt::Table& table) {
  gpt::Table copy{table.disk, {}, table.sectors, table.entriesAt, table.inForce};
  for (auto& p : table.partitions) {
    copy.partitions.add(
        gpt::Partition{p.type, p.id, p.first, p.last, p.attributes, kj::str(p.name)});
  }
  return copy;
}

// Returns true if volumes may be added to the table: those of documents, and on the system's disk
// those of the system, are all that it has.
bool isOurs(const gpt::Table& table) {
  size_t begin = installedOn(table) == Installed::kYes ? kSystemPartitions : 0;
  for (auto& p : table.partitions.slice(begin, table.partitions.size())) {
    if (!isVolumeLabel(p.name)) return false;
  }
  return !table.partitions.empty();
}

bool isUnfinishedVolume(const gpt::Table& table) {
  for (auto& p : table.partitions) {
    if (!isVolumeLabel(p.name) || (p.attributes & kUnfinishedVolume) == 0) return false;
  }
  return !table.partitions.empty();
}

kj::Maybe<gpt::Partition&> partitionOf(gpt::Table& table, kj::StringPtr name) {
  for (auto& p : table.partitions) {
    if (p.name == name) return p;
  }
  return nullptr;
}

}  // namespace

gpt::Table withVolume(kj::Maybe<const gpt::Table&> old, const VolumePartition& wanted,
                      uint64_t diskBytes, unsigned sectorSize) {
  gpt::Table table{gpt::Guid::random(), {}, diskBytes / sectorSize, 0};
  KJ_IF_MAYBE (t, old) {
    if (t->inForce) table = copyOf(*t);
  }
  table.sectors = diskBytes / sectorSize;
  uint64_t first = wanted.offset / sectorSize, end = (wanted.offset + wanted.size) / sectorSize;
  uint64_t limit = (kj::max(diskBytes / kMiB, 1) - 1) * kMiB / sectorSize;
  bool aligned = wanted.offset % kMiB == 0 && wanted.size % kMiB == 0;
  if (!aligned || wanted.offset < gpt::kAlignment || end <= first || end > limit) {
    refusePartition("the partition does not fit on the disk");
  }
  for (auto& p : table.partitions) {
    if (p.first < end && first <= p.last) refusePartition(kj::str("the place is that of ", p.name));
  }
  if (wanted.name.size() > gpt::kMostName || table.partitions.size() >= kMostPartitions) {
    refusePartition("the partition table has no room for it");
  }
  table.partitions.add(gpt::Partition{wanted.swap ? gpt::kLinuxSwap : gpt::kLinuxData,
                                      gpt::Guid::random(), first, end - 1, kUnfinishedVolume,
                                      kj::str(wanted.name)});
  return table;
}

kj::Maybe<gpt::Table> finished(const gpt::Table& table, kj::StringPtr name) {
  auto result = copyOf(table);
  KJ_IF_MAYBE (p, partitionOf(result, name)) {
    if ((p->attributes & kUnfinishedVolume) == 0) return nullptr;
    p->attributes &= ~kUnfinishedVolume;
    return kj::mv(result);
  }
  refusePartition(kj::str("it has no partition ", name));
}

kj::Maybe<gpt::Table> grownVolume(const gpt::Table& table, kj::StringPtr name, uint64_t size,
                                  unsigned sectorSize) {
  auto result = copyOf(table);
  KJ_IF_MAYBE (p, partitionOf(result, name)) {
    auto last = p->first + size / sectorSize - 1;
    if (last <= p->last) return nullptr;
    for (auto& other : table.partitions) {
      if (other.first > p->last && other.first <= last) {
        refusePartition(kj::str("the space is that of ", other.name));
      }
    }
    p->last = last;
    return kj::mv(result);
  }
  refusePartition(kj::str("it has no partition ", name));
}

bool isEmptyDisk(gpt::ReadBytes read, uint64_t diskBytes, unsigned sectorSize) {
  if (diskBytes < kEmptyHead + 2 * kMiB) return false;
  auto isZeroFrom = [&read](uint64_t begin, uint64_t end) {
    for (; begin < end; begin += kReadAtOnce) {
      auto wanted = static_cast<size_t>(kj::min(uint64_t{kReadAtOnce}, end - begin));
      auto bytes = read(begin, wanted);
      if (bytes.size() != wanted || !isZero(bytes)) return false;
    }
    return true;
  };
  // A cut leaves of a first table (gpt.h) the list at the end, then also that at the start.
  auto isOurList = [&read](uint64_t offset) {
    auto partitions = gpt::readList(read(offset, gpt::kListBytes));
    bool ours = !partitions.empty();
    for (auto& p : partitions) {
      ours = ours && isVolumeLabel(p.name) && (p.attributes & kUnfinishedVolume) != 0;
    }
    return ours;
  };
  uint64_t front = 2 * sectorSize, back = diskBytes - sectorSize - gpt::kListBytes;
  bool ends = isOurList(back), begins = ends && isOurList(front);
  // With its list at both ends, the table may have its header, too.
  bool headed = begins && isZeroFrom(0, sectorSize);
  return (headed || isZeroFrom(0, front)) &&
         isZeroFrom(begins ? front + gpt::kListBytes : front, kEmptyHead) &&
         isZeroFrom(diskBytes - kMiB, back) && (ends || isZeroFrom(back, diskBytes));
}

kj::Maybe<Place> findVolume(const gpt::Table& table, kj::StringPtr name, unsigned sectorSize) {
  for (auto i : kj::indices(table.partitions)) {
    auto& p = table.partitions[i];
    if (p.name != name) continue;
    return Place{static_cast<unsigned>(i + 1), p.first * sectorSize,
                 (p.last + 1 - p.first) * sectorSize};
  }
  return nullptr;
}

namespace {

// Errors name the disk.
template <typename Work>
auto onDisk(kj::StringPtr disk, Work&& work) {
  try {
    return work();
  } catch (const kj::Exception& e) {
    fail(kindOf(e), kj::str(disk, " cannot be used: ", messageOf(e)));
  }
}

// Refuses a disk that anything uses, or that is not certainly empty.
void requireEmpty(Disk& disk, const UseOfDisk& use) {
  KJ_IF_MAYBE (problem, use.problem) refusePartition(*problem);
  auto read = [&disk](uint64_t offset, size_t size) { return disk.read(offset, size); };
  if (!isEmptyDisk(read, disk.size(), disk.sectorSize())) {
    refusePartition("it holds data of an unknown kind");
  }
}

// Returns the table to write; nullptr if the disk has the unfinished partition.
kj::Maybe<gpt::Table> tableToAdd(Disk& disk, const VolumePartition& wanted,
                                 machined::FoundOnDisk found, const UseOfDisk& use) {
  auto there = disk.table();
  KJ_IF_MAYBE (table, there) {
    if (table->inForce) {
      KJ_IF_MAYBE (p, partitionOf(*table, wanted.name)) {
        if ((p->attributes & kUnfinishedVolume) != 0) return nullptr;
        refusePartition(kj::str("it has the finished volume ", wanted.name, " already"));
      }
      if (isOurs(*table)) return withVolume(*table, wanted, disk.size(), disk.sectorSize());
    } else if (isUnfinishedVolume(*table)) {
      requireEmpty(disk, use);
      return withVolume(nullptr, wanted, disk.size(), disk.sectorSize());
    }
  }
  KJ_IF_MAYBE (problem, worthKeeping(disk.look(kj::mv(found)))) refusePartition(*problem);
  if (there != nullptr) refusePartition("a system is being installed on it");
  requireEmpty(disk, use);
  return withVolume(nullptr, wanted, disk.size(), disk.sectorSize());
}

}  // namespace

void addPartition(kj::StringPtr path, const VolumePartition& wanted, machined::FoundOnDisk found,
                  kj::Function<void(kj::StringPtr)>& say, Confinement& confinement) {
  Disk disk(path, Disk::Use::kShared);
  auto use = useOfDisk(path);
  confinement.enter(StepKind::kDisk, {});
  onDisk(path, [&]() {
    KJ_IF_MAYBE (table, tableToAdd(disk, wanted, kj::mv(found), use)) {
      say(kj::str("adding partition ", wanted.name, " to ", path));
      disk.writeTable(*table);
    }
    auto table = KJ_REQUIRE_NONNULL(disk.table());
    auto place = KJ_REQUIRE_NONNULL(findVolume(table, wanted.name, disk.sectorSize()));
    disk.zero(place.offset, emptyHeadOf(place.size));
    disk.show(place);
  });
}

void finishPartition(kj::StringPtr path, kj::StringPtr name, Confinement& confinement) {
  Disk disk(path, Disk::Use::kShared);
  confinement.enter(StepKind::kDisk, {});
  onDisk(path, [&]() {
    auto table = KJ_REQUIRE_NONNULL(disk.table());
    KJ_IF_MAYBE (complete, finished(table, name)) disk.writeTable(*complete);
    disk.show(KJ_REQUIRE_NONNULL(findVolume(table, name, disk.sectorSize())));
  });
}

// The layout is the kernel's interface (union swap_header).
kj::Array<kj::byte> swapHeader(uint64_t bytes, gpt::Guid id) {
  constexpr size_t kPage = 4096, kInfo = 1024;
  auto page = kj::heapArray<kj::byte>(kPage);
  memset(page.begin(), 0, page.size());
  auto put = [&](size_t at, uint64_t value) {
    for (size_t i = 0; i < 4; ++i) page[at + i] = static_cast<kj::byte>(value >> (8 * i));
  };
  put(kInfo, 1);                                                     // version
  put(kInfo + 4, kj::min(bytes / kPage, uint64_t{UINT32_MAX}) - 1);  // the last page
  memcpy(page.begin() + kInfo + 12, id.bytes, sizeof id.bytes);
  memcpy(page.end() - kSwapMagic.size(), kSwapMagic.begin(), kSwapMagic.size());
  return page;
}

kj::Maybe<kj::String> notForSwap(const gpt::Partition& partition,
                                 kj::ArrayPtr<const kj::byte> head) {
  if (partition.type != gpt::kLinuxSwap || !isVolumeLabel(partition.name)) {
    return kj::str("its partition \"", partition.name, "\" is not one for swap");
  }
  auto magic = swapHeader(head.size(), partition.id);
  bool swap = head.size() >= magic.size() &&
              head.slice(magic.size() - kSwapMagic.size(), magic.size()) ==
                  magic.slice(magic.size() - kSwapMagic.size(), magic.size());
  if (swap || isZero(head)) return nullptr;
  return kj::str(partition.name, " is not empty and holds no swap; empty the partition if nothing ",
                 "on it is needed");
}

void makeSwap(kj::StringPtr device, Confinement& confinement) {
  auto path = kj::str("/dev/", diskOfPartition(device));
  Disk disk(path, Disk::Use::kShared), partition(device);
  confinement.enter(StepKind::kDisk, {});
  auto there = disk.table();
  KJ_IF_MAYBE (table, there) {
    for (auto i : kj::indices(table->partitions)) {
      auto& p = table->partitions[i];
      if (partitionNode(path, static_cast<unsigned>(i + 1)) != device) continue;
      bool same = (p.last + 1 - p.first) * disk.sectorSize() == partition.size();
      if (!same) break;
      auto head = partition.read(0, kj::min(partition.size(), kEmptyHead));
      KJ_IF_MAYBE (problem, notForSwap(p, head)) {
        refusePartition(kj::str(device, " cannot be used as swap: ", *problem));
      }
      return partition.write(0, swapHeader(partition.size(), gpt::Guid::random()));
    }
  }
  refusePartition(kj::str(device, " cannot be used as swap: the partition table of ", path,
                          " does not describe it"));
}

bool growPartition(kj::StringPtr path, kj::StringPtr name, uint64_t size,
                   Confinement& confinement) {
  Disk disk(path, Disk::Use::kShared);
  confinement.enter(StepKind::kDisk, {});
  return onDisk(path, [&]() {
    auto table = KJ_REQUIRE_NONNULL(disk.table());
    auto end = KJ_REQUIRE_NONNULL(findVolume(table, name, disk.sectorSize())).offset + size;
    if (end > (kj::max(disk.size() / kMiB, 1) - 1) * kMiB) refusePartition("it is too small");
    auto larger = grownVolume(table, name, size, disk.sectorSize());
    KJ_IF_MAYBE (t, larger) {
      t->sectors = disk.size() / disk.sectorSize();
      disk.writeTable(*t);
      disk.resize(KJ_REQUIRE_NONNULL(findVolume(*t, name, disk.sectorSize())));
      return true;
    }
    return false;
  });
}

}  // namespace talos::install
