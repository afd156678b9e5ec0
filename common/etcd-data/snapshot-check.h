// A snapshot of etcd, checked piece by piece: the database of bbolt, in whole pages, followed by
// its SHA-256, as `talosctl etcd snapshot` and `etcdctl snapshot save` write it; or, if the hash is
// to be skipped, a bare copy of the database. Throws InvalidArgument with the fault.
#pragma once

#include <kj/refcount.h>
#include <stdint.h>

#include "common/base/sha256.h"

namespace talos {

class SnapshotCheck final : public kj::AtomicRefcounted {
 public:
  // `size` is the size of the whole snapshot in bytes; the constructor checks it first.
  SnapshotCheck(uint64_t size, bool skipHashCheck);

  // Adds the next piece, in order. The first piece must contain at least the header of the first
  // page.
  void add(kj::ArrayPtr<const kj::byte> bytes);
  // Checks the end, once, after the last piece.
  void finish();
  // Returns the size of the database alone; digest() returns its hash once finish() has returned.
  uint64_t databaseBytes() const { return database; }
  kj::ArrayPtr<const kj::byte> digest() const { return computed; }

 private:
  uint64_t database, received = 0;
  bool skip;
  Sha256 hash;
  kj::Array<kj::byte> computed;
  kj::byte trailer[Sha256::kBytes] = {};
  size_t trailed = 0;
};

}  // namespace talos
