// A snapshot of etcd as it comes from a node: the database, a multiple of 512 bytes, and behind it
// its SHA-256. Written beside its place and moved there when it is whole
// and right, so a file of that name is one that can be recovered from. Beside it, with ".sig" at
// the end of the name, is its signature: never that of another snapshot, also after a crash.
#pragma once

#include <kj/io.h>

#include "common/base/sha256.h"
#include "common/etcd-data/cms-output.h"

namespace talos::talosctl {

class SnapshotFile {
 public:
  // Throws naming the file when `path`.part cannot be made. With a recipient, which outlives it,
  // the file is encrypted; what is checked is the snapshot.
  explicit SnapshotFile(kj::StringPtr path, kj::Maybe<const CmsRecipient&> recipient = nullptr);
  ~SnapshotFile() noexcept(false);  // without keep() nothing is left
  KJ_DISALLOW_COPY_AND_MOVE(SnapshotFile);

  void write(kj::ArrayPtr<const kj::byte> bytes);
  uint64_t size() const { return written; }
  // InvalidArgument when it is cut off or not what the node has read. Returns when both last.
  // `signature` is empty if the node gave none.
  void keep(kj::ArrayPtr<const kj::byte> signature);

 private:
  kj::String path, part;
  kj::AutoCloseFd fd;
  kj::Maybe<kj::Own<CmsOutput>> encryption;
  Sha256 hash;
  uint64_t written = 0;
  kj::Vector<kj::byte> tail;  // the newest 32 bytes: not hashed, as they may be the hash
  bool kept = false;

  void put(kj::ArrayPtr<const kj::byte> bytes);
};

}  // namespace talos::talosctl
