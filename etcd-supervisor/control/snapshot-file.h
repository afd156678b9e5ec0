// Receives a snapshot that is restored later: writes it to a file, syncs it, and checks it.
//
// Accepts a database of bbolt followed by its SHA-256, as `talosctl etcd snapshot` and `etcdctl
// snapshot save` write it; or, if the hash is to be skipped, a bare copy of the database.
// InvalidArgument names the problem. If the promise rejects, or is dropped, the file is useless:
// the owner of the path removes it (Files::removeSnapshot).
//
// Fails with ResourceExhausted if the file, and the database that etcd's tool makes of it, do not
// fit on the disk beside the reserve. All work on the disk is in the queue.
#pragma once

#include <kj/async.h>
#include <kj/string.h>
#include <kj/timer.h>
#include <stdint.h>

#include "common/base/disk-thread.h"
#include "common/base/sha256.h"
#include "rpc/stream.capnp.h"

namespace talos::supervisor {

// Limits of snapshots that clients send: their size, and the part of EPHEMERAL that they leave to
// etcd, whose writes fail on a full disk, and to pods, which the kubelet evicts from a full disk.

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

struct SnapshotTarget {
  DiskQueue& queue;
  kj::String path;
  DiskReserve reserve = {};
};
kj::Promise<void> receiveSnapshot(kj::Timer& timer, rpc::ByteSource::Client source, uint64_t size,
                                  bool skipHashCheck, SnapshotTarget target);

}  // namespace talos::supervisor
