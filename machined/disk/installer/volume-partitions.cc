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

[[noreturn]] void refuse(kj::StringPtr problem) {
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

bool isUnfinished(const gpt::Table& table) {
  for (auto& p : table.partitions) {
    if (!isVolumeLabel(p.name) || !p.name.endsWith(kUnfinishedVolume)) return false;
  }
  return !table.partitions.empty();
}

kj::Maybe<gpt::Partition&> partitionOf(gpt::Table& table, kj::StringPtr name) {
  auto unfinished = unfinishedVolume(name);
  for (auto& p : table.partitions) {
    if (p.name == name || p.name == unfinished) return p;
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
    refuse("the partition does not fit on the disk");
  }
  for (auto& p : table.partitions) {
    if (p.first < end && first <= p.last) refuse(kj::str("the place is that of ", p.name));
  }
  auto name = unfinishedVolume(wanted.name);
  if (name.size() > gpt::kMostName || table.partitions.size() >= kMostPartitions) {
    refuse("the partition table has no room for it");
  }
  table.partitions.add(gpt::Partition{wanted.swap ? gpt::kLinuxSwap : gpt::kLinuxData,
                                      gpt::Guid::random(), first, end - 1, 0, kj::mv(name)});
  return table;
}

kj::Maybe<gpt::Table> renamed(const gpt::Table& table, kj::StringPtr name, bool complete) {
  auto result = copyOf(table);
  KJ_IF_MAYBE (p, partitionOf(result, name)) {
    auto wanted = complete ? kj::str(name) : unfinishedVolume(name);
    if (p->name == wanted) return nullptr;
    p->name = kj::mv(wanted);
    return kj::mv(result);
  }
  refuse(kj::str("it has no partition ", name));
}

kj::Maybe<gpt::Table> grownVolume(const gpt::Table& table, kj::StringPtr name, uint64_t size,
                                  unsigned sectorSize) {
  auto result = copyOf(table);
  KJ_IF_MAYBE (p, partitionOf(result, name)) {
    auto last = p->first + size / sectorSize - 1;
    if (last <= p->last) return nullptr;
    for (auto& other : table.partitions) {
      if (other.first > p->last && other.first <= last) {
        refuse(kj::str("the space is that of ", other.name));
      }
    }
    p->last = last;
    return kj::mv(result);
  }
  refuse(kj::str("it has no partition ", name));
}

kj::Maybe<Place> findVolume(const gpt::Table& table, kj::StringPtr name, unsigned sectorSize) {
  auto unfinished = unfinishedVolume(name);
  for (auto i : kj::indices(table.partitions)) {
    auto& p = table.partitions[i];
    if (p.name != name && p.name != unfinished) continue;
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

bool isEmpty(Disk& disk, const Place& place) {
  auto head = emptyHeadOf(place.size);
  for (uint64_t done = 0; done < head; done += kReadAtOnce) {
    auto size = static_cast<size_t>(kj::min(uint64_t{kReadAtOnce}, head - done));
    if (!isZero(disk.read(place.offset + done, size))) return false;
  }
  return true;
}

// Returns the table to write; nullptr if the disk has the partition under its unfinished name.
kj::Maybe<gpt::Table> tableToAdd(Disk& disk, const VolumePartition& wanted,
                                 machined::FoundOnDisk found) {
  auto there = disk.table();
  KJ_IF_MAYBE (table, there) {
    if (table->inForce) {
      KJ_IF_MAYBE (place, findVolume(*table, wanted.name, disk.sectorSize())) {
        if (table->partitions[place->number - 1].name != wanted.name) return nullptr;
        if (!isEmpty(disk, *place)) {
          refuse(kj::str(wanted.name, " is not empty, but has no readable file system"));
        }
        return renamed(*table, wanted.name, false);
      }
      if (isOurs(*table)) return withVolume(*table, wanted, disk.size(), disk.sectorSize());
    } else if (isUnfinished(*table)) {
      return withVolume(nullptr, wanted, disk.size(), disk.sectorSize());
    }
  }
  KJ_IF_MAYBE (problem, worthKeeping(disk.look(kj::mv(found)))) refuse(*problem);
  if (there != nullptr) refuse("a system is being installed on it");
  return withVolume(nullptr, wanted, disk.size(), disk.sectorSize());
}

}  // namespace

void addPartition(kj::StringPtr path, const VolumePartition& wanted, machined::FoundOnDisk found,
                  kj::Function<void(kj::StringPtr)>& say, Confinement& confinement) {
  Disk disk(path, Disk::Use::kShared);
  confinement.enter(StepKind::kDisk, {});
  onDisk(path, [&]() {
    KJ_IF_MAYBE (table, tableToAdd(disk, wanted, kj::mv(found))) {
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
    KJ_IF_MAYBE (complete, renamed(table, name, true)) disk.writeTable(*complete);
    disk.show(KJ_REQUIRE_NONNULL(findVolume(table, name, disk.sectorSize())));
  });
}

// The layout is the kernel's interface (union swap_header).
kj::Array<kj::byte> swapHeader(uint64_t bytes, gpt::Guid id) {
  constexpr size_t kPage = 4096, kInfo = 1024;
  constexpr kj::StringPtr kMagic = "SWAPSPACE2"_kj;
  auto page = kj::heapArray<kj::byte>(kPage);
  memset(page.begin(), 0, page.size());
  auto put = [&](size_t at, uint64_t value) {
    for (size_t i = 0; i < 4; ++i) page[at + i] = static_cast<kj::byte>(value >> (8 * i));
  };
  put(kInfo, 1);                                                     // version
  put(kInfo + 4, kj::min(bytes / kPage, uint64_t{UINT32_MAX}) - 1);  // the last page
  memcpy(page.begin() + kInfo + 12, id.bytes, sizeof id.bytes);
  memcpy(page.end() - kMagic.size(), kMagic.begin(), kMagic.size());
  return page;
}

void makeSwap(kj::StringPtr device, Confinement& confinement) {
  Disk partition(device);
  confinement.enter(StepKind::kDisk, {});
  partition.write(0, swapHeader(partition.size(), gpt::Guid::random()));
}

bool growPartition(kj::StringPtr path, kj::StringPtr name, uint64_t size,
                   Confinement& confinement) {
  Disk disk(path, Disk::Use::kShared);
  confinement.enter(StepKind::kDisk, {});
  return onDisk(path, [&]() {
    auto table = KJ_REQUIRE_NONNULL(disk.table());
    auto end = KJ_REQUIRE_NONNULL(findVolume(table, name, disk.sectorSize())).offset + size;
    if (end > (kj::max(disk.size() / kMiB, 1) - 1) * kMiB) refuse("it is too small");
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
