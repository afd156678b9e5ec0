// Prepares a disk for the user's data (machine.disks): a GPT with consecutive partitions, each with
// an XFS.
//
// Data on a disk is never lost: only an empty disk, or a disk on which this work was begun, is
// written to. While partitions lack their file systems, all have names that say so
// (user-disk-1.unfinished). Such partitions have never held a user's data, so after a cut
// everything is made again. The last write, when the file systems are on the disk, gives the final
// names.
#pragma once

#include "machined/disk/installer/confinement.h"
#include "machined/disk/installer/disk-content.h"
#include "machined/disk/installer/partition-layout.h"

namespace talos::install {

// Returns a layout with unfinished names. The last of `sizes` may be 0: the remaining space.
// InvalidArgument naming what does not fit on the disk. Pure.
gpt::Table userLayout(kj::ArrayPtr<const uint64_t> sizes, uint64_t diskBytes, unsigned sectorSize);
void finishUserLayout(gpt::Table& table);

// Returns true if a disk with this content is to be divided, false if it has this number of
// partitions already. FailedPrecondition naming the content if it is anything else. Pure.
bool mustDivide(kj::StringPtr disk, const Found& found, kj::Maybe<const gpt::Table&> table,
                size_t partitions);

// Divides the disk. Blocks. `found`: the content of the disk. Returns true if it made the
// partitions; otherwise as mustDivide(), and changes nothing. After an error the partitions have
// unfinished names, and a repeated call makes everything again.
bool divide(kj::StringPtr disk, kj::ArrayPtr<const uint64_t> sizes, machined::FoundOnDisk found,
            kj::Function<void(kj::StringPtr)>& say, Confinement& confinement);

}  // namespace talos::install
