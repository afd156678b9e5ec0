// A snapshot of etcd, taken piece by piece: the database of bbolt, whole pages, and behind it its
// SHA-256, as `talosctl etcd snapshot` and `etcdctl snapshot save` write it; or, if the hash is to
// be skipped, a bare copy of the database. InvalidArgument says what is wrong with it.
#pragma once

#include <kj/refcount.h>
#include <stdint.h>

#include "common/base/sha256.h"

namespace talos {

class SnapshotCheck final : public kj::AtomicRefcounted {
 public:
  // `size`, in bytes, is that of the whole, which is judged first.
  SnapshotCheck(uint64_t size, bool skipHashCheck);

  // In their order. The first has the first page's header at least.
  void add(kj::ArrayPtr<const kj::byte> bytes);
  // After the last one. Once.
  void finish();
  // The size of the database alone, and its hash once finish() has returned.
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
