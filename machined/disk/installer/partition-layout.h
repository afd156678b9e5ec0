// The partitions of a system disk, with names and sizes as Talos has them. Pure.
//
// While an installation is under way, STATE and EPHEMERAL have other names: a node is installed,
// and has an owner, as soon as a partition is named STATE, so both get their names at the very end
// (system-installation.h).
#pragma once

#include "common/disk/gpt.h"

namespace talos::install {

constexpr kj::StringPtr kEfi = "EFI"_kj, kBios = "BIOS"_kj, kBoot = "BOOT"_kj, kMeta = "META"_kj,
                        kState = "STATE"_kj, kEphemeral = "EPHEMERAL"_kj;
// Of STATE and EPHEMERAL until the end.
constexpr kj::StringPtr kUnfinished = ".unfinished"_kj;

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kStateBytes = 100 * kMiB;
// EPHEMERAL gets what is left, which is 520 MiB at least.
constexpr uint64_t kLeastDisk = 1024 * kMiB;

// Throws InvalidArgument, with what is wrong with the disk.
gpt::Table layout(uint64_t diskBytes, unsigned sectorSize);

enum class Installed {
  kNot,
  kUnfinished,  // an installation began here and did not get to its end
  kYes,
};
Installed installedOn(const gpt::Table& table);
// Gives STATE and EPHEMERAL their names; takes them away again.
void finish(gpt::Table& table);
void begin(gpt::Table& table);
// For a disk that is about to be wiped: it has no owner any more, and is not one on which an
// installation began, so that a wipe that is cut off is begun again.
void disown(gpt::Table& table);

// The place of a partition of our own table in bytes.
struct Place {
  unsigned number;  // from 1
  uint64_t offset, size;
};
kj::Maybe<Place> find(const gpt::Table& table, kj::StringPtr name, unsigned sectorSize);

// The same table for a disk that has become larger: EPHEMERAL, which is the last one, gets the
// rest. None when there is nothing to gain.
kj::Maybe<gpt::Table> grown(const gpt::Table& table, uint64_t diskBytes, unsigned sectorSize);

// "vda" -> "vda3", "nvme0n1" -> "nvme0n1p3".
kj::String partitionNode(kj::StringPtr disk, unsigned number);

}  // namespace talos::install
