#include "machined/confined/parser/partition-table.h"

#include <string.h>
#include <zlib.h>

namespace talos::parse {
namespace {

using Bytes = kj::ArrayPtr<const kj::byte>;

constexpr kj::StringPtr kSignature = "EFI PART"_kj;
constexpr size_t kLeastHeader = 92;
constexpr size_t kChecksumAt = 16;
constexpr size_t kLeastEntry = 128;
// The bytes read at a time (superblock.h). Common partition tables have 128 entries of 128 bytes.
constexpr size_t kMostEntries = 64u << 10;
constexpr uint64_t kSectors[] = {512, 4096};

uint64_t littleEndian(Bytes bytes, size_t offset, unsigned size) {
  uint64_t value = 0;
  for (unsigned i = size; i > 0; --i) value = value << 8 | bytes[offset + i - 1];
  return value;
}

uint32_t checksum(Bytes bytes) {
  return static_cast<uint32_t>(crc32(0, bytes.begin(), static_cast<uInt>(bytes.size())));
}

bool hasProtectiveMbr(Bytes head) {
  constexpr size_t kEntries = 446, kEntrySize = 16, kTypeAt = 4;
  constexpr kj::byte kGpt = 0xee;
  if (head.size() < 512 || head[510] != 0x55 || head[511] != 0xaa) return false;
  for (size_t i = 0; i < 4; ++i) {
    if (head[kEntries + i * kEntrySize + kTypeAt] == kGpt) return true;
  }
  return false;
}

bool hasSignature(Bytes header) {
  return header.size() >= kLeastHeader &&
         memcmp(header.begin(), kSignature.begin(), kSignature.size()) == 0;
}

// Compares the name, which is UTF-16 and ends with a zero.
bool isState(Bytes entry) {
  constexpr size_t kName = 56;
  constexpr kj::byte kState[] = {'S', 0, 'T', 0, 'A', 0, 'T', 0, 'E', 0, 0, 0};
  return memcmp(entry.begin() + kName, kState, sizeof kState) == 0;
}

enum class Table { kDamaged, kWithoutState, kWithState };

Table judge(ReadBytes& read, Bytes header, uint64_t sector) {
  auto size = littleEndian(header, 12, 4);
  if (size < kLeastHeader || size > header.size()) return Table::kDamaged;
  auto copy = kj::heapArray(header.slice(0, size));
  memset(copy.begin() + kChecksumAt, 0, 4);
  if (checksum(copy) != littleEndian(header, kChecksumAt, 4)) return Table::kDamaged;
  auto count = littleEndian(header, 80, 4), each = littleEndian(header, 84, 4);
  if (count == 0 || each < kLeastEntry || count * each > kMostEntries) return Table::kDamaged;
  auto first = littleEndian(header, 72, 8);
  if (first > UINT64_MAX / sector) return Table::kDamaged;
  auto entries = read(first * sector, count * each);
  if (entries.size() != count * each || checksum(entries) != littleEndian(header, 88, 4)) {
    return Table::kDamaged;
  }
  for (size_t i = 0; i < count; ++i) {
    if (isState(entries.slice(i * each, (i + 1) * each))) return Table::kWithState;
  }
  return Table::kWithoutState;
}

}  // namespace

bool lostPartitionTable(ReadBytes read) {
  auto head = read(0, 2 * 4096);
  bool trace = hasProtectiveMbr(head);
  for (auto sector : kSectors) {
    if (head.size() < 2 * sector) break;
    auto header = head.slice(sector, 2 * sector);
    if (!hasSignature(header)) continue;
    switch (judge(read, header, sector)) {
      case Table::kWithoutState:
        return false;
      case Table::kWithState:
        return true;
      case Table::kDamaged:
        trace = true;
    }
  }
  return trace;
}

}  // namespace talos::parse
