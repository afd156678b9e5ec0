// A disk file's GUID partition table with one partition (UEFI specification §5.2-5.3): both copies
// and the protective MBR, sectors of 512 bytes. The partition begins at 1 MiB, ends 1 MiB before
// the disk does, and is of the type of Linux data.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::cluster {

constexpr uint64_t kPartitionAt = 1u << 20;
// What a disk needs more than its partition, for the two copies and their alignment.
constexpr uint64_t kAroundPartition = 2u << 20;

using Guid = kj::byte[16];

struct TablePieces {
  kj::Array<kj::byte> head;  // at the disk's begin: MBR, header, entries
  kj::Array<kj::byte> tail;  // at its end: entries, header
};
// `size` is the disk's, a multiple of 512 and larger than kAroundPartition. `name` is ASCII, of at
// most 36 characters.
TablePieces makePartitionTable(uint64_t size, kj::StringPtr name, const Guid& disk,
                               const Guid& partition);

}  // namespace talos::cluster
