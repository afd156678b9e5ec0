// The partitions of a system disk, with names and sizes as Talos has them; on disks that are large
// enough, BOOT is larger, for the systems of later releases. Pure.
//
// Partitions of the volumes of documents may follow them (volume-partitions.h).
//
// During an installation, STATE and EPHEMERAL have other names. A disk with a partition named STATE
// counts as installed and owned, so both get their names at the very end (system-installation.h).
#pragma once

#include "common/disk/gpt.h"
#include "common/disk/volume-size.h"

namespace talos::install {

constexpr kj::StringPtr kEfi = "EFI"_kj, kBios = "BIOS"_kj, kBoot = "BOOT"_kj, kMeta = "META"_kj,
                        kState = "STATE"_kj, kEphemeral = "EPHEMERAL"_kj;
// Suffix of the names STATE and EPHEMERAL until the end.
constexpr kj::StringPtr kUnfinished = ".unfinished"_kj;

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kStateBytes = 100 * kMiB;
// Smallest disk: EPHEMERAL gets the remaining space, at least 520 MiB.
constexpr uint64_t kLeastDisk = 1024 * kMiB;
constexpr uint64_t kLeastForLargeBoot = 8192 * kMiB;

// Throws InvalidArgument with the problem of the disk.
gpt::Table layout(uint64_t diskBytes, unsigned sectorSize, const EphemeralSize& ephemeral = {});

constexpr size_t kSystemPartitions = 6;  // the first ones of the table

enum class Installed {
  kNot,
  kUnfinished,  // an installation began on this disk and did not end
  kYes,
};
Installed installedOn(const gpt::Table& table);
// Gives STATE and EPHEMERAL their names; takes them away again.
void finish(gpt::Table& table);
void begin(gpt::Table& table);
// Prepares a disk for wiping: it no longer has an owner, and does not count as an unfinished
// installation, so that an interrupted wipe is started again.
void disown(gpt::Table& table);

// The place of a partition of our own table in bytes.
struct Place {
  unsigned number;  // from 1
  uint64_t offset, size;
};
kj::Maybe<Place> find(const gpt::Table& table, kj::StringPtr name, unsigned sectorSize);

// Returns the table for a disk that has grown: EPHEMERAL gets the free space after it, as far as
// its size allows. Returns nullptr if there is nothing to gain.
kj::Maybe<gpt::Table> grown(const gpt::Table& table, uint64_t diskBytes, unsigned sectorSize,
                            const EphemeralSize& ephemeral = {});

// "vda" -> "vda3", "nvme0n1" -> "nvme0n1p3".
kj::String partitionNode(kj::StringPtr disk, unsigned number);

}  // namespace talos::install
