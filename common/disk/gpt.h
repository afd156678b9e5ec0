// GUID partition tables: reads one from a disk, and lists the writes that store one (UEFI
// specification §5.2-5.3). Pure: bytes in, bytes out.
//
// The header names the place of the entries, and there is room for two lists of them before the
// first partition. So a table is replaced by writing the new list beside the old one and then the
// header, which is one sector: an interruption at any write leaves the old table or the new one,
// complete. This order is needed because Linux does not read the copy at the end of the disk,
// unless its command line says so. The first table, too, takes effect with its last write: the
// protective MBR.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::gpt {

struct Guid {
  kj::byte bytes[16];  // in the byte order of disks
  bool operator==(const Guid& other) const;
  static Guid random();  // version 4 of RFC 9562
};
// Types C12A7328-F81F-11D2-BA4B-00A0C93EC93B, 21686148-6449-6E6F-744E-656564454649,
// 0FC63DAF-8483-4772-8E79-3D69D8477DE4 and 0657FD6D-A4AB-43C4-84E5-0933C84B4F4F.
extern const Guid kEfiSystem, kBiosBoot, kLinuxData, kLinuxSwap;

constexpr uint64_t kAlignment =
    1u << 20;  // alignment of the first partition's start, and of the last possible end
constexpr uint64_t kLegacyBootable = 1u << 2;
constexpr size_t kMostName = 36;

struct Partition {
  Guid type, id;
  uint64_t first, last;  // sectors, both included
  uint64_t attributes;
  kj::String name;  // characters that are not ASCII are '?'
};
struct Table {
  Guid disk;
  kj::Vector<Partition> partitions;  // the i-th one has the number i + 1
  uint64_t sectors;                  // of the disk for which it was made
  uint64_t entriesAt;                // sector
  bool inForce = true;               // false if only its protective MBR is missing
};

struct Write {
  uint64_t offset;
  kj::Array<kj::byte> bytes;
};
// Returns the writes that store the table. They must be made in this order, each on the disk before
// the next; the last one writes a single sector. `old`: the existing table. Without an old table,
// or with one that is not in force, the protective MBR is among the writes, and the disk must have
// none.
kj::Vector<Write> writes(const Table& table, unsigned sectorSize,
                         kj::Maybe<const Table&> old = nullptr);

// Writes code into a first sector that makes a BIOS continue with the next device.
void startNextDevice(kj::ArrayPtr<kj::byte> sector);

// Reads the partitions in a list of entries, wherever it lies; none if it has a gap.
constexpr size_t kListBytes = 128 * 128;
kj::Vector<Partition> readList(kj::ArrayPtr<const kj::byte> list);

// Reads the table at the start of a disk; nullptr if it is absent, damaged, or not in force on a
// disk whose first sector is not empty. `bytes` returns fewer bytes at the end of the disk.
using ReadBytes = kj::Function<kj::Array<const kj::byte>(uint64_t offset, size_t size)>;
kj::Maybe<Table> read(ReadBytes bytes, unsigned sectorSize);

}  // namespace talos::gpt
