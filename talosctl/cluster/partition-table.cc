#include "talosctl/cluster/partition-table.h"

#include <kj/debug.h>
#include <string.h>
#include <zlib.h>

namespace talos::cluster {
namespace {

constexpr size_t kSector = 512;
constexpr size_t kEntries = 128, kEntrySize = 128;
constexpr size_t kEntriesBytes = kEntries * kEntrySize;
constexpr uint64_t kFirstUsable = 2 + kEntriesBytes / kSector;
constexpr uint32_t kHeaderSize = 92;
constexpr size_t kMostName = 36;
// 0FC63DAF-8483-4772-8E79-3D69D8477DE4, as it stands on disks.
constexpr Guid kLinuxData = {0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47,
                             0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4};

using Out = kj::ArrayPtr<kj::byte>;

void put(Out out, size_t at, uint64_t value, unsigned size) {
  for (unsigned i = 0; i < size; ++i) out[at + i] = static_cast<kj::byte>(value >> (8 * i));
}

uint32_t checksum(Out bytes) {
  return static_cast<uint32_t>(crc32(0, bytes.begin(), static_cast<uInt>(bytes.size())));
}

// So that tools which know no GPT see a disk that is in use.
void putProtectiveMbr(Out out, uint64_t sectors) {
  constexpr size_t kEntry = 446;
  put(out, kEntry + 1, 0x000200, 3);  // cylinder, head and sector of the second sector
  put(out, kEntry + 4, 0xee, 1);
  put(out, kEntry + 5, 0xffffff, 3);
  put(out, kEntry + 8, 1, 4);
  put(out, kEntry + 12, kj::min(sectors - 1, uint64_t{0xffffffff}), 4);
  put(out, 510, 0xaa55, 2);
}

struct Shape {
  uint64_t sectors;
  const Guid& disk;
  uint32_t entriesSum;
};

void putHeader(Out out, const Shape& shape, uint64_t own, uint64_t other, uint64_t entries) {
  memcpy(out.begin(), "EFI PART", 8);
  put(out, 8, 0x00010000, 4);
  put(out, 12, kHeaderSize, 4);
  put(out, 24, own, 8);
  put(out, 32, other, 8);
  put(out, 40, kFirstUsable, 8);
  put(out, 48, shape.sectors - kFirstUsable, 8);
  memcpy(out.begin() + 56, shape.disk, sizeof(Guid));
  put(out, 72, entries, 8);
  put(out, 80, kEntries, 4);
  put(out, 84, kEntrySize, 4);
  put(out, 88, shape.entriesSum, 4);
  put(out, 16, checksum(out.slice(0, kHeaderSize)), 4);
}

void putEntry(Out out, uint64_t size, kj::StringPtr name, const Guid& partition) {
  memcpy(out.begin(), kLinuxData, sizeof(Guid));
  memcpy(out.begin() + 16, partition, sizeof(Guid));
  put(out, 32, kPartitionAt / kSector, 8);
  put(out, 40, (size - kAroundPartition + kPartitionAt) / kSector - 1, 8);
  for (size_t i = 0; i < name.size(); ++i) put(out, 56 + 2 * i, static_cast<kj::byte>(name[i]), 2);
}

}  // namespace

TablePieces makePartitionTable(uint64_t size, kj::StringPtr name, const Guid& disk,
                               const Guid& partition) {
  KJ_REQUIRE(size % kSector == 0 && size > kAroundPartition && name.size() <= kMostName, size);
  TablePieces pieces{kj::heapArray<kj::byte>(2 * kSector + kEntriesBytes),
                     kj::heapArray<kj::byte>(kEntriesBytes + kSector)};
  memset(pieces.head.begin(), 0, pieces.head.size());
  memset(pieces.tail.begin(), 0, pieces.tail.size());
  auto entries = pieces.head.slice(2 * kSector, pieces.head.size());
  putEntry(entries, size, name, partition);
  memcpy(pieces.tail.begin(), entries.begin(), kEntriesBytes);
  Shape shape{size / kSector, disk, checksum(entries)};
  uint64_t last = shape.sectors - 1;
  putProtectiveMbr(pieces.head, shape.sectors);
  putHeader(pieces.head.slice(kSector, 2 * kSector), shape, 1, last, 2);
  putHeader(pieces.tail.slice(kEntriesBytes, pieces.tail.size()), shape, last, 1,
            last - kEntriesBytes / kSector);
  return pieces;
}

}  // namespace talos::cluster
