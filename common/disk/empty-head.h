// How much of a partition's begin must be zeros for the partition to count as empty, and is zeroed to make it so.
//
// It is the header of a LUKS2 volume with both of its copies and all of its key slots: what is behind them
// nobody can read without them. So a header that was damaged, with anything of it left, is never taken for
// an empty partition. Of an XFS it is the begin of the first allocation group, whose loss is repaired by
// hand from what is behind it, if at all: zeros of that length are no accident.
#pragma once

#include <stdint.h>

namespace talos {

constexpr uint64_t kEmptyHead = 16u << 20;

}  // namespace talos
