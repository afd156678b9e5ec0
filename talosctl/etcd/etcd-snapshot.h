// A snapshot of etcd as a node sends it: the database, a multiple of 512 bytes, followed by its
// SHA-256. It is written to a temporary file and renamed when it is complete and correct, so that a
// file with the final name can always be used for a recovery. Its signature is in a file with the
// same name and the suffix ".sig"; this is never the signature of another snapshot, even after a
// crash.
#pragma once

#include <kj/io.h>

#include "common/base/sha256.h"
#include "common/etcd-data/cms-output.h"

namespace talos::talosctl {

class SnapshotFile {
 public:
  // Throws, naming the file, if `path`.part cannot be created. With a recipient, which must outlive
  // this object, the file is encrypted; the check applies to the snapshot itself.
  explicit SnapshotFile(kj::StringPtr path, kj::Maybe<const CmsRecipient&> recipient = nullptr);
  ~SnapshotFile() noexcept(false);  // removes the files unless keep() was called
  KJ_DISALLOW_COPY_AND_MOVE(SnapshotFile);

  void write(kj::ArrayPtr<const kj::byte> bytes);
  uint64_t size() const { return written; }
  // Completes the snapshot; returns when both files are on disk. InvalidArgument if it is truncated
  // or differs from the data that the node has read. `signature` is empty if the node sent none.
  void keep(kj::ArrayPtr<const kj::byte> signature);

 private:
  kj::String path, part;
  kj::AutoCloseFd fd;
  kj::Maybe<kj::Own<CmsOutput>> encryption;
  Sha256 hash;
  uint64_t written = 0;
  kj::Vector<kj::byte> tail;  // the newest 32 bytes: not hashed yet, because they may be the hash
  bool kept = false;

  void put(kj::ArrayPtr<const kj::byte> bytes);
};

}  // namespace talos::talosctl
