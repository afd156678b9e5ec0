// A snapshot that a caller has uploaded before the bootstrap that restores it, because it cannot
// serve reads at any offset (a ByteSource): the original's clients send one in a call of its own.
//
// It is a file without a name, in the folder of etcd-supervisor: a crash, an exit, and an upload
// without an end leave nothing behind. One is kept at a time. It holds every secret of a cluster,
// so it is deleted with the first bootstrap, whatever its result.
#pragma once

#include <kj/io.h>

#include "rpc/etcd.capnp.h"

namespace talos::supervisor {

struct SnapshotFile {
  kj::AutoCloseFd fd;
  uint64_t size;
};

// To be read piece by piece; reading has no side effects.
rpc::ByteSource::Client sourceOf(kj::AutoCloseFd file);

class KeptSnapshot {
 public:
  explicit KeptSnapshot(kj::StringPtr folder) : folder(kj::str(folder)) {}
  KJ_DISALLOW_COPY_AND_MOVE(KeptSnapshot);

  // Must go before this. Several may write at once; the last one to be done is kept.
  rpc::Etcd::SnapshotUpload::Client upload();
  // Leaves none. FailedPrecondition when there is none.
  SnapshotFile take();
  void drop() { kept = nullptr; }

 private:
  kj::String folder;
  kj::Maybe<SnapshotFile> kept;
  class Upload;
};

}  // namespace talos::supervisor
