// Limits of snapshots that clients send: their size, and the part of EPHEMERAL that they leave to
// etcd, whose writes fail on a full disk, and to pods, which the kubelet evicts from a full disk.
#pragma once

#include <kj/string.h>
#include <stdint.h>

#include "common/base/sha256.h"

namespace talos::supervisor {

// Size of the largest database that etcd's documents recommend, and of the hash after it.
constexpr uint64_t kMostSnapshotBytes = (uint64_t{8} << 30) + Sha256::kBytes;

// A share of the file system, within bounds.
struct DiskReserve {
  unsigned percent = 15;  // the kubelet's last threshold
  uint64_t least = 256u << 20, most = uint64_t{2} << 30;

  uint64_t of(uint64_t fileSystemBytes) const;
};

// Throws InvalidArgument for a larger size.
void requireSnapshotSize(uint64_t bytes, uint64_t most = kMostSnapshotBytes);

// Throws ResourceExhausted, with numbers, unless so many bytes more fit on the file system of this
// file beside the reserve. Blocks as long as the disk does.
void requireRoom(int fd, uint64_t bytes, const DiskReserve& reserve);

}  // namespace talos::supervisor
