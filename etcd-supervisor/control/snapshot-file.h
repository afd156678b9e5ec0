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
#include <kj/timer.h>

#include "common/base/disk-thread.h"
#include "etcd-supervisor/control/snapshot-limits.h"
#include "rpc/stream.capnp.h"

namespace talos::supervisor {

struct SnapshotTarget {
  DiskQueue& queue;
  kj::String path;
  DiskReserve reserve = {};
};
kj::Promise<void> receiveSnapshot(kj::Timer& timer, rpc::ByteSource::Client source, uint64_t size,
                                  bool skipHashCheck, SnapshotTarget target);

}  // namespace talos::supervisor
