// A snapshot that a caller has uploaded before the bootstrap that restores it, because it cannot
// serve reads at any offset (a ByteSource): the original's clients send one in a call of its own.
//
// It is a file without a name, in the folder of etcd-supervisor: a crash, an exit, and an upload
// without an end leave nothing behind. One is kept at a time. It holds every secret of a cluster,
// so it is deleted with the first bootstrap, whatever its result, and after an hour without one.
//
// The folder is on the disk of etcd. So an upload is bounded in size, leaves the disk its reserve
// (snapshot-limits.h), and is the only one; one that sends nothing for a minute is ended. All work
// on the disk is in the queue (disk-thread.h).
#pragma once

#include <kj/timer.h>

#include "common/base/disk-thread.h"
#include "etcd-supervisor/control/snapshot-limits.h"
#include "rpc/etcd.capnp.h"

namespace talos::supervisor {

struct SnapshotFile {
  QueuedFile file;
  uint64_t size;
};

// To be read piece by piece; reading has no side effects.
rpc::ByteSource::Client sourceOf(QueuedFile file);

class KeptSnapshot {
 public:
  struct Options {
    uint64_t mostBytes = kMostSnapshotBytes;
    DiskReserve reserve = {};
    kj::Duration silence = 60 * kj::SECONDS, keptFor = 1 * kj::HOURS;
  };
  KeptSnapshot(kj::Timer& timer, DiskQueue& queue, kj::StringPtr folder)
      : KeptSnapshot(timer, queue, folder, Options()) {}
  KeptSnapshot(kj::Timer& timer, DiskQueue& queue, kj::StringPtr folder, Options options)
      : timer(timer), queue(queue), folder(kj::str(folder)), options(options) {}
  KJ_DISALLOW_COPY_AND_MOVE(KeptSnapshot);

  // Must go before this. Conflict while there is another one that has not ended.
  rpc::Etcd::SnapshotUpload::Client upload();
  // Leaves none. FailedPrecondition when there is none.
  SnapshotFile take();
  void drop();

 private:
  class Upload;
  kj::Timer& timer;
  DiskQueue& queue;
  kj::String folder;
  Options options;
  bool uploading = false;
  kj::Maybe<SnapshotFile> kept;
  kj::Promise<void> expiry = nullptr;

  void keep(SnapshotFile file);
};

}  // namespace talos::supervisor
