// A disk for the user's data, as machine.disks has it: a GPT, and on it one partition behind the other.
//
// Nothing that is on a disk is ever lost for it: only one that is empty, or that this was begun on, is written
// to. The heads of the partitions are zeroed before the table says where they are, so a cut at any write
// leaves an empty disk, or partitions that the brain takes for new ones (Installer::format()).
#pragma once

#include "machined/install/layout.h"

namespace talos::install {

// Pure. InvalidArgument, with what the disk is too small for. Of `sizes` the last one may be 0: the rest.
gpt::Table userLayout(kj::ArrayPtr<const uint64_t> sizes, uint64_t diskBytes, unsigned sectorSize);

// Blocks. True: the partitions were made; false: there were as many. FailedPrecondition, naming what is on the
// disk, when it holds something else.
bool divide(kj::StringPtr disk, kj::ArrayPtr<const uint64_t> sizes,
            kj::Function<void(kj::StringPtr)>& say);

}  // namespace talos::install
