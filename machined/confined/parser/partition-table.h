// Finds out if a disk without partitions in the kernel may be a node's all the same: it has a GUID
// partition table, one that is damaged, or one that the kernel could not read (a bad moment of the
// disk) or that is for sectors of another size (another controller). It looks like a disk that
// never had partitions.
//
// Only the head of the disk counts, as for the kernel: a disk whose first sectors were zeroed was
// wiped, even if the second copy of its table is still at its end.
//
// Pure, like superblock.h: whoever calls it brings the bytes. They are foreign; whatever they are,
// the answer is yes or no. After the UEFI specification, §5.2 and §5.3.
#pragma once

#include "machined/confined/parser/superblock.h"

namespace talos::parse {

// True for a table with a partition STATE, or a trace of one (the protective MBR, or the signature
// of the header) and none with right checksums. A whole one without a STATE has lost nothing of a
// node. `read` as readSuperblock() has it, asked four times at most.
bool lostPartitionTable(ReadBytes read);

}  // namespace talos::parse
