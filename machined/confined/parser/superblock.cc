#include "machined/confined/parser/superblock.h"
#include "common/text/foreign-text.h"

#include <kj/encoding.h>
#include <string.h>

namespace talos::parse {
namespace {

using machined::FileSystem, machined::Superblock;

using Bytes = kj::ArrayPtr<const kj::byte>;

constexpr size_t kHead = 64u << 10;
constexpr uint64_t kIsoSector = 2048;
constexpr uint64_t kFirstDescriptor = 16 * kIsoSector;
constexpr size_t kLargeSector = 4096;  // of disks that have no smaller ones
constexpr unsigned kMostDescriptors = 8;
constexpr size_t kMostRootDirectory = 16u << 10;  // the label is one of its first entries

bool has(Bytes bytes, size_t offset, kj::StringPtr text) {
  return bytes.size() >= offset + text.size() &&
         memcmp(bytes.begin() + offset, text.begin(), text.size()) == 0;
}

uint32_t little(Bytes bytes, size_t offset, unsigned size) {
  uint32_t value = 0;
  if (offset + size > bytes.size()) return 0;
  for (unsigned i = size; i > 0; --i) value = value << 8 | bytes[offset + i - 1];
  return value;
}

// Returns the label up to the first NUL, without blanks at the end.
kj::String labelOf(Bytes padded) {
  size_t end = 0;
  while (end < padded.size() && padded[end] != 0) ++end;
  while (end > 0 && padded[end - 1] == ' ') --end;
  return fieldText(padded.slice(0, end).asChars());
}

// Decodes a label of Joliet, which is big-endian UTF-16.
kj::String wideLabelOf(Bytes padded) {
  kj::Vector<char16_t> units;
  for (size_t i = 0; i + 1 < padded.size(); i += 2) {
    units.add(static_cast<char16_t>(padded[i] << 8 | padded[i + 1]));
  }
  return labelOf(kj::decodeUtf16(units).asBytes());
}

kj::Maybe<Superblock> readXfs(Bytes head) {
  constexpr size_t kInProgress = 126;  // set by mkfs.xfs until it is done
  if (!has(head, 0, "XFSB") || head.size() <= kInProgress || head[kInProgress] != 0) {
    return nullptr;
  }
  return Superblock{FileSystem::kXfs, labelOf(head.slice(108, 120))};
}

kj::Maybe<Superblock> readExt(Bytes head) {
  constexpr size_t kAt = 1024;
  if (head.size() < kAt + 136 || little(head, kAt + 56, 2) != 0xef53) return nullptr;
  return Superblock{FileSystem::kExt4, labelOf(head.slice(kAt + 120, kAt + 136))};
}

kj::Maybe<Superblock> readLuks(Bytes head) {
  if (!has(head, 0, "LUKS\xba\xbe")) return nullptr;
  return Superblock{FileSystem::kLuks, kj::String()};
}

// The primary descriptor has the disc's name; if the name was cut or changed to fit there, Joliet's
// descriptor has the whole name. Returns the one that is not all capitals, because it is as given.
kj::Maybe<Superblock> readIso(ReadBytes& read) {
  kj::Maybe<kj::String> primary;
  for (unsigned i = 0; i < kMostDescriptors; ++i) {
    auto sector = read(kFirstDescriptor + i * kIsoSector, kIsoSector);
    if (!has(sector, 1, "CD001") || sector.size() < 92 || sector[0] == 255) break;
    if (sector[0] == 1 && primary == nullptr) {
      primary = labelOf(sector.slice(40, 72));
    } else if (sector[0] == 2 && has(sector, 88, "%/") &&
               (sector[90] == '@' || sector[90] == 'C' || sector[90] == 'E')) {
      auto wide = wideLabelOf(sector.slice(40, 72));
      KJ_IF_MAYBE (p, primary) {
        // Joliet has room for sixteen characters only.
        if (wide.size() > 0 && (p->size() == 0 || p->size() <= 16)) primary = kj::mv(wide);
      }
    }
  }
  return primary.map(
      [](kj::String& label) { return Superblock{FileSystem::kIso9660, kj::mv(label)}; });
}

// Checks the volume recognition sequence of ECMA-167: descriptors of a sector each, the first of
// which may be those of ISO 9660. All of it is in the head.
bool isUdf(Bytes head, size_t sector) {
  bool begun = false, named = false;
  for (size_t at = kFirstDescriptor; at + sector <= head.size(); at += sector) {
    if (has(head, at + 1, "TEA01")) return named;
    if (has(head, at + 1, "BEA01")) {
      begun = true;
    } else if (has(head, at + 1, "NSR02") || has(head, at + 1, "NSR03")) {
      named = begun;
    } else if (!has(head, at + 1, "CD001") && !has(head, at + 1, "BOOT2")) {
      return false;
    }
  }
  return false;
}

// A disc with both has all of its files in UDF, and its known name in ISO 9660.
kj::Maybe<Superblock> readDisc(ReadBytes& read, Bytes head) {
  auto found = readIso(read);
  if (!isUdf(head, kIsoSector) && !isUdf(head, kLargeSector)) return found;
  auto label = found.map([](Superblock& iso) { return kj::mv(iso.label); });
  return Superblock{FileSystem::kUdf, kj::mv(label).orDefault(kj::String())};
}

struct FatShape {
  bool wide = false;  // FAT32
  uint64_t rootDirectory = 0;
  size_t rootBytes = 0;
};

// Checks the form of a boot sector, so that neither a partition table nor a boot loader, which end
// in the same two bytes, is taken for FAT.
kj::Maybe<FatShape> fatShape(Bytes head) {
  if (head.size() < 512 || head[510] != 0x55 || head[511] != 0xaa) return nullptr;
  if (head[0] != 0xe9 && head[0] != 0xeb) return nullptr;
  auto power = [](uint32_t n) { return n != 0 && (n & (n - 1)) == 0; };
  uint32_t sector = little(head, 11, 2), cluster = head[13], reserved = little(head, 14, 2);
  uint32_t tables = head[16], rootEntries = little(head, 17, 2), tableSectors = little(head, 22, 2);
  if (!power(sector) || sector < 512 || sector > 4096 || !power(cluster) || reserved == 0 ||
      tables == 0 || tables > 2 || (head[21] != 0xf0 && head[21] < 0xf8)) {
    return nullptr;
  }
  FatShape shape;
  shape.wide = tableSectors == 0;
  uint64_t wideSectors = little(head, 36, 4);
  if (shape.wide ? rootEntries != 0 || wideSectors == 0 : rootEntries == 0) return nullptr;
  uint64_t perTable = shape.wide ? wideSectors : tableSectors;
  uint64_t data = reserved + tables * perTable;  // sectors before the root directory
  if (shape.wide) {
    uint64_t first = little(head, 44, 4);
    if (first < 2) return nullptr;
    data += (first - 2) * cluster;
    shape.rootBytes = static_cast<size_t>(cluster) * sector;
  } else {
    shape.rootBytes = static_cast<size_t>(rootEntries) * 32;
  }
  shape.rootDirectory = data * sector;
  return shape;
}

// Tools change the label in the root directory; the boot sector keeps the first label.
kj::Maybe<kj::String> labelInDirectory(Bytes directory) {
  for (size_t at = 0; at + 32 <= directory.size(); at += 32) {
    auto entry = directory.slice(at, at + 32);
    if (entry[0] == 0) break;
    bool deleted = entry[0] == 0xe5, longName = (entry[11] & 0x3f) == 0x0f;
    if (!deleted && !longName && (entry[11] & 0x18) == 0x08) return labelOf(entry.slice(0, 11));
  }
  return nullptr;
}

kj::Maybe<Superblock> readFat(ReadBytes& read, Bytes head) {
  KJ_IF_MAYBE (shape, fatShape(head)) {
    auto directory = read(shape->rootDirectory, kj::min(shape->rootBytes, kMostRootDirectory));
    KJ_IF_MAYBE (label, labelInDirectory(directory)) {
      return Superblock{FileSystem::kVfat, kj::mv(*label)};
    }
    size_t at = shape->wide ? 71 : 43;
    bool labelled = head[at - 5] == 0x29;  // signature of the extended boot record
    auto label = labelled ? labelOf(head.slice(at, at + 11)) : kj::String();
    if (label == "NO NAME") label = kj::String();
    return Superblock{FileSystem::kVfat, kj::mv(label)};
  }
  return nullptr;
}

}  // namespace

kj::Maybe<Superblock> readSuperblock(ReadBytes read) {
  auto head = read(0, kHead);
  KJ_IF_MAYBE (found, readLuks(head)) return kj::mv(*found);
  KJ_IF_MAYBE (found, readXfs(head)) return kj::mv(*found);
  KJ_IF_MAYBE (found, readExt(head)) return kj::mv(*found);
  // Comes before FAT, because a disc that can also be booted from a stick begins like a disk.
  KJ_IF_MAYBE (found, readDisc(read, head)) return kj::mv(*found);
  return readFat(read, head);
}

}  // namespace talos::parse
