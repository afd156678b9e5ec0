// GUID partition tables: how one lies on a disk, and which writes put it there (UEFI specification
// §5.2-5.3). Pure: bytes in, bytes out.
//
// The place of the entries is named by the header, and there is room for two lists of them before
// the first partition. So a table is replaced by writing the new list beside the old one and then
// the header, which is one sector: a cut at any write leaves the old table or the new one, whole.
// That is needed because Linux does not read the copy at the end of the disk, unless it is asked
// to. The first table comes into force by its last write too, which is that of the protective MBR.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::gpt {

struct Guid {
  kj::byte bytes[16];  // as they are on disks
  bool operator==(const Guid& other) const;
  static Guid random();  // version 4 of RFC 9562
};
// C12A7328-F81F-11D2-BA4B-00A0C93EC93B, 21686148-6449-6E6F-744E-656564454649 and
// 0FC63DAF-8483-4772-8E79-3D69D8477DE4.
extern const Guid kEfiSystem, kBiosBoot, kLinuxData;

constexpr uint64_t kAlignment =
    1u << 20;  // of the first partition's start, and of the last possible end
constexpr uint64_t kLegacyBootable = 1u << 2;
constexpr size_t kMostName = 36;

struct Partition {
  Guid type, id;
  uint64_t first, last;  // sectors, both included
  uint64_t attributes;
  kj::String name;  // what is not ASCII is '?'
};
struct Table {
  Guid disk;
  kj::Vector<Partition> partitions;  // the i-th one has the number i + 1
  uint64_t sectors;                  // of the disk that it was made for
  uint64_t entriesAt;                // sector
  bool inForce = true;               // false: its protective MBR is missing, all else is there
};

struct Write {
  uint64_t offset;
  kj::Array<kj::byte> bytes;
};
// To be done in this order, each on the disk before the next one; the last one is of one sector.
// `old`: the table that is there. Without one, or with one that is not in force, the protective MBR
// is among them, and the disk must have none.
kj::Vector<Write> writes(const Table& table, unsigned sectorSize,
                         kj::Maybe<const Table&> old = nullptr);

// The code of a first sector that makes a BIOS go on with the next device.
void startNextDevice(kj::ArrayPtr<kj::byte> sector);

// The table at the start of a disk; none if it is absent, damaged, or one that is not
// in force on a disk whose first sector is not empty. `bytes` gives fewer of them where there are
// no more.
using ReadBytes = kj::Function<kj::Array<const kj::byte>(uint64_t offset, size_t size)>;
kj::Maybe<Table> read(ReadBytes bytes, unsigned sectorSize);

}  // namespace talos::gpt
