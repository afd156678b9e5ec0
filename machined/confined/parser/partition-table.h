// Detects that a disk without partitions in the kernel may still be a node's: its GUID partition
// table is damaged, or the kernel could not read it (a temporary fault of the disk), or it is for
// sectors of another size (another controller). To the kernel such a disk looks as if it never had
// partitions.
//
// Only the head of the disk counts, as for the kernel: a disk whose first sectors were zeroed was
// wiped, even if the second copy of its table is still at its end.
//
// Pure, like superblock.h: the caller reads the bytes. They are foreign; for any bytes, the answer
// is yes or no. After the UEFI specification, §5.2 and §5.3.
#pragma once

#include "machined/confined/parser/superblock.h"

namespace talos::parse {

// Returns true for a table with a partition STATE, or for a trace of a table (the protective MBR,
// or the signature of the header) and no table with right checksums. A whole table without a STATE
// has lost nothing of a node. `read` as for readSuperblock(), called at most four times.
bool lostPartitionTable(ReadBytes read);

}  // namespace talos::parse
