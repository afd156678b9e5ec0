// Whether a disk lost its GUID partition table: what the kernel then shows is a disk without
// partitions, which looks like one that never had any.
//
// Only the head of the disk counts, as for the kernel: a disk whose first sectors were zeroed was
// wiped, even if the second copy of its table is still at its end.
//
// Pure, like superblock.h: whoever calls it brings the bytes. They are foreign; whatever they are,
// the answer is yes or no. After the UEFI specification, §5.2 and §5.3.
#pragma once

#include "machined/parse/superblock.h"

namespace talos::parse {

// Whether there is a trace of a table (the protective MBR, or the signature of the header) and no
// table with right checksums. `read` as readSuperblock() has it, asked four times at most.
bool lostPartitionTable(ReadBytes read);

}  // namespace talos::parse
