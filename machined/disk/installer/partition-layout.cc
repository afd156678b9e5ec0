#include "machined/disk/installer/partition-layout.h"

#include "common/base/error.h"
#include "common/disk/volume-labels.h"

namespace talos::install {
namespace {

struct Row {
  kj::StringPtr name;
  const gpt::Guid& type;
  uint64_t size;  // 0: the remaining space
  uint64_t attributes = 0;
};

// Two systems fit into the small one. The other one has room for three of twice their size.
constexpr uint64_t kSmallBoot = 300 * kMiB, kLargeBoot = 1000 * kMiB;

// In the order on the disk. BOOT is larger on larger disks. The number of BOOT is built into the
// boot loader (rootfs/image.sh).
const Row kRows[] = {
    {kEfi, gpt::kEfiSystem, 100 * kMiB},    {kBios, gpt::kBiosBoot, 1 * kMiB, gpt::kLegacyBootable},
    {kBoot, gpt::kLinuxData, kSmallBoot},   {kMeta, gpt::kLinuxData, 1 * kMiB},
    {kState, gpt::kLinuxData, kStateBytes}, {kEphemeral, gpt::kLinuxData, 0},
};

bool comesLast(kj::StringPtr name) {
  return name == kState || name == kEphemeral;
}

constexpr kj::StringPtr kWiped = ".wiped"_kj;

kj::String unfinished(kj::StringPtr name) {
  return kj::str(name, kUnfinished);
}

uint64_t sizeOf(const Row& row, uint64_t diskBytes) {
  return row.name == kBoot && diskBytes >= kLeastForLargeBoot ? kLargeBoot : row.size;
}

// Returns the end of the last sector that a partition may have.
uint64_t endOf(uint64_t diskBytes) {
  return (diskBytes / kMiB - 1) * kMiB;
}

void requireEnough(uint64_t size, const EphemeralSize& ephemeral) {
  if (size >= ephemeral.least && size > 0) return;
  fail(
      ErrorKind::kInvalidArgument,
      kj::str("would leave ", size / kMiB, " MiB for EPHEMERAL, and VolumeConfig[EPHEMERAL] wants ",
              ephemeral.least / kMiB, " MiB"));
}

}  // namespace

gpt::Table layout(uint64_t diskBytes, unsigned sectorSize, const EphemeralSize& ephemeral) {
  if (diskBytes < kLeastDisk) {
    fail(ErrorKind::kInvalidArgument, kj::str("has ", diskBytes / kMiB, " MiB, and at least ",
                                              kLeastDisk / kMiB, " MiB are needed"));
  }
  if (sectorSize != 512 && sectorSize != 4096) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("has sectors of ", sectorSize, " bytes, and only 512 and 4096 are supported"));
  }
  gpt::Table table{gpt::Guid::random(), {}, diskBytes / sectorSize, 0};
  uint64_t at = gpt::kAlignment;
  for (auto& row : kRows) {
    uint64_t size = sizeOf(row, diskBytes);
    if (size == 0) {
      size = sizeWithin(ephemeral.bound, endOf(diskBytes) - at);
      requireEnough(size, ephemeral);
    }
    uint64_t end = at + size;
    table.partitions.add(gpt::Partition{
        row.type, gpt::Guid::random(), at / sectorSize, end / sectorSize - 1, row.attributes,
        comesLast(row.name) ? unfinished(row.name) : kj::str(row.name)});
    at = end;
  }
  return table;
}

Installed installedOn(const gpt::Table& table) {
  static_assert(kj::size(kRows) == kSystemPartitions);
  bool complete = table.partitions.size() >= kj::size(kRows);
  for (size_t i = kj::size(kRows); i < table.partitions.size(); ++i) {
    complete = complete && isVolumeLabel(table.partitions[i].name);
  }
  bool begun = complete;
  for (size_t i = 0; i < kj::size(kRows) && i < table.partitions.size(); ++i) {
    kj::StringPtr name = table.partitions[i].name, wanted = kRows[i].name;
    complete = complete && name == wanted;
    begun = begun && name == (comesLast(wanted) ? unfinished(wanted) : kj::str(wanted));
  }
  return complete ? Installed::kYes : begun ? Installed::kUnfinished : Installed::kNot;
}

void finish(gpt::Table& table) {
  for (auto& partition : table.partitions) {
    for (auto name : {kState, kEphemeral}) {
      if (partition.name == unfinished(name)) partition.name = kj::str(name);
    }
  }
}

void begin(gpt::Table& table) {
  for (auto& partition : table.partitions) {
    if (comesLast(partition.name)) partition.name = unfinished(partition.name);
  }
}

void disown(gpt::Table& table) {
  for (auto& partition : table.partitions) {
    if (comesLast(partition.name)) partition.name = kj::str(partition.name, kWiped);
  }
}

kj::Maybe<Place> find(const gpt::Table& table, kj::StringPtr name, unsigned sectorSize) {
  unsigned number = 0;
  for (auto& p : table.partitions) {
    ++number;
    if (p.name != name && p.name != unfinished(name)) continue;
    return Place{number, p.first * sectorSize, (p.last + 1 - p.first) * sectorSize};
  }
  return nullptr;
}

kj::Maybe<gpt::Table> grown(const gpt::Table& table, uint64_t diskBytes, unsigned sectorSize,
                            const EphemeralSize& ephemeral) {
  if (installedOn(table) != Installed::kYes || diskBytes < 2 * kMiB || !ephemeral.grows) {
    return nullptr;
  }
  auto& before = table.partitions[kSystemPartitions - 1];
  uint64_t begin = before.first * sectorSize, end = endOf(diskBytes);
  for (auto i : kj::indices(table.partitions)) {
    auto& p = table.partitions[i];
    if (i == kSystemPartitions - 1) continue;
    bool isBehind = p.first > before.last;
    if (!isBehind && p.last >= before.first) return nullptr;  // the table is not ours
    if (isBehind) end = kj::min(end, p.first * sectorSize / kMiB * kMiB);
  }
  if (end <= begin) return nullptr;
  auto sectors = sizeWithin(ephemeral.bound, end - begin) / sectorSize;
  if (sectors == 0) return nullptr;
  auto last = before.first + sectors - 1;
  if (last <= before.last) return nullptr;
  gpt::Table result{table.disk, {}, diskBytes / sectorSize, 0};
  for (auto& p : table.partitions) {
    result.partitions.add(
        gpt::Partition{p.type, p.id, p.first, p.last, p.attributes, kj::str(p.name)});
  }
  result.partitions[kSystemPartitions - 1].last = last;
  return kj::mv(result);
}

kj::String partitionNode(kj::StringPtr disk, unsigned number) {
  char end = disk[disk.size() - 1];
  return kj::str(disk, end >= '0' && end <= '9' ? "p" : "", number);
}

}  // namespace talos::install
