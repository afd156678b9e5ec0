#include "common/disk/gpt.h"

#include <kj/debug.h>
#include <string.h>
#include <sys/random.h>
#include <zlib.h>

namespace talos::gpt {

const Guid kEfiSystem = {{0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0,
                          0xc9, 0x3e, 0xc9, 0x3b}};
const Guid kBiosBoot = {{0x48, 0x61, 0x68, 0x21, 0x49, 0x64, 0x6f, 0x6e, 0x74, 0x4e, 0x65, 0x65,
                         0x64, 0x45, 0x46, 0x49}};
const Guid kLinuxData = {{0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69,
                          0xd8, 0x47, 0x7d, 0xe4}};
const Guid kLinuxSwap = {{0x6d, 0xfd, 0x57, 0x06, 0xab, 0xa4, 0xc4, 0x43, 0x84, 0xe5, 0x09, 0x33,
                          0xc8, 0x4b, 0x4f, 0x4f}};

namespace {

constexpr size_t kEntries = 128, kEntrySize = 128;
static_assert(kListBytes == kEntries * kEntrySize);
constexpr kj::StringPtr kSignature = "EFI PART"_kj;
constexpr uint32_t kRevision = 0x00010000, kHeaderSize = 92;
constexpr size_t kCodeEnd = 440, kMbrEntry = 446, kMbrSize = 512;
constexpr uint64_t kFirstList = 2;  // the sector after the header

using In = kj::ArrayPtr<const kj::byte>;
using Out = kj::ArrayPtr<kj::byte>;

void put(Out out, size_t at, uint64_t value, unsigned size) {
  for (unsigned i = 0; i < size; ++i) out[at + i] = static_cast<kj::byte>(value >> (8 * i));
}
uint64_t get(In in, size_t at, unsigned size) {
  uint64_t value = 0;
  for (unsigned i = size; i > 0; --i) value = value << 8 | in[at + i - 1];
  return value;
}
Guid guidAt(In in, size_t at) {
  Guid guid;
  memcpy(guid.bytes, in.begin() + at, sizeof guid.bytes);
  return guid;
}

uint32_t checksum(In bytes) {
  return static_cast<uint32_t>(crc32(0, bytes.begin(), static_cast<uInt>(bytes.size())));
}

kj::Array<kj::byte> zeros(size_t size) {
  auto bytes = kj::heapArray<kj::byte>(size);
  memset(bytes.begin(), 0, size);
  return bytes;
}

// Writes the MBR for tools without GPT support: they see a disk in use. A BIOS starts its code,
// which continues with the next device.
void putProtectiveMbr(Out out, uint64_t sectors) {
  startNextDevice(out);
  put(out, kMbrEntry + 1, 0x000200, 3);  // cylinder, head and sector of the second sector
  put(out, kMbrEntry + 4, 0xee, 1);
  put(out, kMbrEntry + 5, 0xffffff, 3);
  put(out, kMbrEntry + 8, 1, 4);
  put(out, kMbrEntry + 12, kj::min(sectors - 1, uint64_t{0xffffffff}), 4);
  put(out, kMbrSize - 2, 0xaa55, 2);
}

kj::Array<kj::byte> listOf(const Table& table) {
  auto list = zeros(kListBytes);
  for (size_t i = 0; i < table.partitions.size(); ++i) {
    auto& partition = table.partitions[i];
    auto out = list.slice(i * kEntrySize, (i + 1) * kEntrySize);
    memcpy(out.begin(), partition.type.bytes, 16);
    memcpy(out.begin() + 16, partition.id.bytes, 16);
    put(out, 32, partition.first, 8);
    put(out, 40, partition.last, 8);
    put(out, 48, partition.attributes, 8);
    for (size_t c = 0; c < partition.name.size(); ++c) {
      put(out, 56 + 2 * c, static_cast<kj::byte>(partition.name[c]), 2);
    }
  }
  return list;
}

struct Header {
  uint64_t own, other, list;  // sectors
};

kj::Array<kj::byte> headerOf(const Table& table, In list, unsigned sectorSize, Header where) {
  auto out = zeros(sectorSize);
  uint64_t listSectors = kListBytes / sectorSize;
  memcpy(out.begin(), kSignature.begin(), kSignature.size());
  put(out, 8, kRevision, 4);
  put(out, 12, kHeaderSize, 4);
  put(out, 24, where.own, 8);
  put(out, 32, where.other, 8);
  put(out, 40, kFirstList + 2 * listSectors, 8);     // the first sector of a partition
  put(out, 48, table.sectors - listSectors - 2, 8);  // and the last one
  memcpy(out.begin() + 56, table.disk.bytes, 16);
  put(out, 72, where.list, 8);
  put(out, 80, kEntries, 4);
  put(out, 84, kEntrySize, 4);
  put(out, 88, checksum(list), 4);
  put(out, 16, checksum(out.slice(0, kHeaderSize)), 4);
  return out;
}

bool isZero(In bytes) {
  for (auto byte : bytes) {
    if (byte != 0) return false;
  }
  return true;
}

kj::Maybe<Partition> partitionOf(In entry) {
  if (isZero(entry.slice(0, 16))) return nullptr;
  Partition partition{guidAt(entry, 0),  guidAt(entry, 16), get(entry, 32, 8),
                      get(entry, 40, 8), get(entry, 48, 8), kj::String()};
  kj::Vector<char> name;
  for (size_t c = 0; c < kMostName; ++c) {
    auto unit = get(entry, 56 + 2 * c, 2);
    if (unit == 0) break;
    name.add(unit >= 0x20 && unit < 0x7f ? static_cast<char>(unit) : '?');
  }
  partition.name = kj::heapString(name.asPtr());
  return kj::mv(partition);
}

}  // namespace

void startNextDevice(kj::ArrayPtr<kj::byte> sector) {
  // int 18h; halt, for a BIOS that returns.
  constexpr kj::byte kCode[] = {0xcd, 0x18, 0xf4, 0xeb, 0xfd};
  memset(sector.begin(), 0, kCodeEnd);
  memcpy(sector.begin(), kCode, sizeof kCode);
}

bool Guid::operator==(const Guid& other) const {
  return memcmp(bytes, other.bytes, sizeof bytes) == 0;
}

Guid Guid::random() {
  Guid guid;
  KJ_SYSCALL(getrandom(guid.bytes, sizeof guid.bytes, 0));
  guid.bytes[7] = (guid.bytes[7] & 0x0f) | 0x40;  // the third field is little-endian on disks
  guid.bytes[8] = (guid.bytes[8] & 0x3f) | 0x80;
  return guid;
}

kj::Vector<Write> writes(const Table& table, unsigned sectorSize, kj::Maybe<const Table&> old) {
  uint64_t listSectors = kListBytes / sectorSize, last = table.sectors - 1;
  KJ_REQUIRE(table.partitions.size() <= kEntries && table.sectors > 4 * listSectors + 3);
  for (auto& p : table.partitions) {
    KJ_REQUIRE(p.name.size() <= kMostName, p.name);
    KJ_REQUIRE(p.first >= kFirstList + 2 * listSectors, "no room for two lists", p.name);
  }
  uint64_t place = kFirstList;
  bool first = true;
  KJ_IF_MAYBE (o, old) {
    KJ_REQUIRE(o->entriesAt == kFirstList || o->entriesAt == kFirstList + listSectors);
    if (o->entriesAt == kFirstList) place = kFirstList + listSectors;
    first = !o->inForce;
  }
  auto list = listOf(table);
  Header front{1, last, place}, back{last, 1, last - listSectors};
  auto header = headerOf(table, list, sectorSize, front);
  kj::Vector<Write> result;
  result.add(Write{back.list * sectorSize, kj::heapArray(list.asPtr().asConst())});
  result.add(Write{last * sectorSize, headerOf(table, list, sectorSize, back)});
  result.add(Write{place * sectorSize, kj::mv(list)});
  result.add(Write{sectorSize, kj::mv(header)});
  if (first) {
    auto mbr = zeros(sectorSize);
    putProtectiveMbr(mbr, table.sectors);
    result.add(Write{0, kj::mv(mbr)});
  }
  return result;
}

kj::Maybe<Table> read(ReadBytes bytes, unsigned sectorSize) {
  auto head = bytes(0, 2 * sectorSize);
  if (head.size() < 2 * sectorSize) return nullptr;
  bool inForce = get(head, kMbrSize - 2, 2) == 0xaa55 && head[kMbrEntry + 4] == 0xee;
  if (!inForce && !isZero(head.slice(0, sectorSize))) return nullptr;
  auto header = kj::heapArray(head.slice(sectorSize, head.size()));
  if (memcmp(header.begin(), kSignature.begin(), kSignature.size()) != 0 ||
      get(header, 12, 4) != kHeaderSize || get(header, 24, 8) != 1 ||
      get(header, 80, 4) != kEntries || get(header, 84, 4) != kEntrySize) {
    return nullptr;
  }
  auto sum = get(header, 16, 4);
  put(header, 16, 0, 4);
  if (checksum(header.slice(0, kHeaderSize)) != sum) return nullptr;
  Table table{guidAt(header, 56), {}, get(header, 32, 8) + 1, get(header, 72, 8), inForce};
  if (table.entriesAt > kAlignment / sectorSize) return nullptr;
  auto list = bytes(table.entriesAt * sectorSize, kListBytes);
  if (list.size() != kListBytes || checksum(list) != get(header, 88, 4)) return nullptr;
  table.partitions = readList(list);
  // One with a gap is not ours.
  if (table.partitions.empty() && !isZero(list)) return nullptr;
  return kj::mv(table);
}

kj::Vector<Partition> readList(kj::ArrayPtr<const kj::byte> list) {
  kj::Vector<Partition> partitions;
  for (size_t i = 0; i < kEntries && list.size() == kListBytes; ++i) {
    KJ_IF_MAYBE (p, partitionOf(list.slice(i * kEntrySize, (i + 1) * kEntrySize))) {
      if (i != partitions.size()) return {};
      partitions.add(kj::mv(*p));
    }
  }
  return partitions;
}

}  // namespace talos::gpt
