// A disk for the user's data, as machine.disks has it: a GPT, and on it one partition behind the
// other, each with an XFS.
//
// Nothing that is on a disk is ever lost for it: only one that is empty, or that this was begun on,
// is written to. As long as there are partitions without their file systems, all of them have names
// that say so (user-disk-1.unfinished): nobody has had data there, whatever a cut left, so all is
// made anew. The names without that come with the last write, when the file systems are on the
// disk.
#pragma once

#include "machined/disk/installer/confinement.h"
#include "machined/disk/installer/disk-content.h"
#include "machined/disk/installer/partition-layout.h"

namespace talos::install {

// Pure. InvalidArgument, with what the disk is too small for. Of `sizes` the last one may be 0: the
// rest. With unfinished names.
gpt::Table userLayout(kj::ArrayPtr<const uint64_t> sizes, uint64_t diskBytes, unsigned sectorSize);
void finishUserLayout(gpt::Table& table);

// True if a disk with this content is to be divided; false: it has as many partitions. Pure.
// FailedPrecondition, naming what is on it, when it holds something else.
bool mustDivide(kj::StringPtr disk, const Found& found, kj::Maybe<const gpt::Table&> table,
                size_t partitions);

// Blocks. `found`: what is on the disk. True: the partitions were made; otherwise as mustDivide().
bool divide(kj::StringPtr disk, kj::ArrayPtr<const uint64_t> sizes, machined::FoundOnDisk found,
            kj::Function<void(kj::StringPtr)>& say, Confinement& confinement);

}  // namespace talos::install
