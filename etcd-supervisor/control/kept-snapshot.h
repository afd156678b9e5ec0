// A snapshot that a client has uploaded before the bootstrap that restores it, because the client
// cannot serve reads at any offset (a ByteSource): Talos' clients upload it in a separate
// call.
//
// It is an unlinked file, in the folder of etcd-supervisor: a crash, an exit, or an upload without
// an end leaves no file. Only one is kept at a time. It holds every secret of a cluster, so it is
// deleted with the first bootstrap, whatever its result, and after an hour without a bootstrap.
//
// The folder is on the disk of etcd. So an upload is bounded in size, leaves the disk its reserve
// (snapshot-file.h), and is the only one; an upload that sends nothing for a minute is ended. All
// work on the disk is in the queue (disk-thread.h).
#pragma once

#include <kj/timer.h>

#include "common/base/disk-thread.h"
#include "etcd-supervisor/control/snapshot-file.h"
#include "rpc/etcd.capnp.h"

namespace talos::supervisor {

struct SnapshotFile {
  QueuedFile file;
  uint64_t size;
};

// Returns a source that reads the file piece by piece, without side effects.
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

  // Starts an upload, which must not outlive this object. Throws Conflict while another upload has
  // not ended.
  rpc::Etcd::SnapshotUpload::Client upload();
  // Takes the snapshot away. Throws FailedPrecondition if there is no snapshot.
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
