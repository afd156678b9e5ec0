// Partitions of the volumes that documents describe (u-data): adds one, completes it, grows it.
//
// Data on a disk is never lost: a partition is added to an empty disk, to a disk that has nothing
// but partitions of such volumes, and into the free space of the system's disk; all others are
// refused, and nothing is written. A disk without a table counts as empty if nothing uses it and
// its first 16 MiB and its last MiB are zeros. No partition moves or shrinks, and none is removed.
//
// The order, and the state after a cut at any write:
//   1. A table with the partition, marked as unfinished (common/disk/volume-labels.h). The new
//      table is written beside the old one, and one write of one sector makes it valid: before it
//      the disk is as it was, after it the partition exists. On an empty disk that write is the
//      protective MBR; a table without it is not in force, and is made again.
//   2. The head of the partition is zeroed, so that nothing of an earlier owner is found there.
//   3. The brain formats and encrypts the partition. While it has the mark, it has never held data
//      of a user: whatever is in it, the next boot starts again with step 2.
//   4. The table once more, without the mark. One write of one sector. From then on the partition
//      is never emptied.
// To grow is one write of one sector, too; the file system is grown when it is mounted, also if the
// power was cut between the two. Each request may be repeated.
//
// The disk may be in use: other partitions of it are mounted. All functions block.
#pragma once

#include "machined/disk/installer/confinement.h"
#include "machined/disk/installer/disk-content.h"

namespace talos::install {

struct VolumePartition {
  kj::StringPtr name;  // u-data
  uint64_t offset = 0, size = 0;
  bool swap = false;
};

// The pure part. All throw FailedPrecondition without a name of the disk.

// Returns the table with the partition at its end, marked as unfinished. A table that is not in
// force is replaced. Refuses a table with another kind of partitions, and a place that is not
// free.
gpt::Table withVolume(kj::Maybe<const gpt::Table&> table, const VolumePartition& wanted,
                      uint64_t diskBytes, unsigned sectorSize);
// Returns the table without the mark of the partition; nullptr if the partition is finished.
kj::Maybe<gpt::Table> finished(const gpt::Table& table, kj::StringPtr name);
// Returns the table in which the partition has so many bytes; nullptr if it has as many or more.
kj::Maybe<gpt::Table> grownVolume(const gpt::Table& table, kj::StringPtr name, uint64_t size,
                                  unsigned sectorSize);
// Returns true if the first 16 MiB and the last MiB are zeros, or else what an interrupted first
// table has left. Data may begin after the first sectors, and some arrays have their marks at the
// end.
bool isEmptyDisk(gpt::ReadBytes read, uint64_t diskBytes, unsigned sectorSize);
// Finds a partition by its name, finished or not.
kj::Maybe<Place> findVolume(const gpt::Table& table, kj::StringPtr name, unsigned sectorSize);

// Steps 1 and 2. A finished partition of this name is refused.
void addPartition(kj::StringPtr disk, const VolumePartition& wanted, machined::FoundOnDisk found,
                  kj::Function<void(kj::StringPtr)>& say, Confinement& confinement);
// Step 4.
void finishPartition(kj::StringPtr disk, kj::StringPtr name, Confinement& confinement);
// Returns why a partition with these first bytes must not become swap; nullptr if its type is swap
// and it is empty, or holds swap, which holds nothing over a reboot. Pure.
kj::Maybe<kj::String> notForSwap(const gpt::Partition& partition,
                                 kj::ArrayPtr<const kj::byte> head);
// Writes the header of swap to a partition, as far as notForSwap() allows it.
void makeSwap(kj::StringPtr device, Confinement& confinement);
// Returns the first page of a swap device of so many bytes. Pure.
kj::Array<kj::byte> swapHeader(uint64_t bytes, gpt::Guid id);
// Returns false if there is nothing to do.
bool growPartition(kj::StringPtr disk, kj::StringPtr name, uint64_t size, Confinement& confinement);

}  // namespace talos::install
