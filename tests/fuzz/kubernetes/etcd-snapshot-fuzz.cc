// Snapshots of etcd: the database in them, and their signature.
//
// link: common-etcd-data
#include <kj/debug.h>
#include <stdlib.h>

#include "common/base/error.h"
#include "common/etcd-data/etcd-database.h"
#include "common/etcd-data/snapshot-signature.h"
#include "common/tls/pki.h"
#include "tests/fuzz/fuzz-target.h"

// The database in a snapshot of etcd: from a user's disk.
FUZZ_TARGET(etcddatabase) {
  auto read = [&](uint64_t at, size_t bytes) {
    KJ_ASSERT(at <= size && bytes <= size - at);
    return kj::heapArray<kj::byte>(data + at, bytes);
  };
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&]() { KJ_ASSERT(talos::newestRevision(size, read) >= 0); })) {
    KJ_ASSERT(talos::kindOf(*e) == talos::ErrorKind::kInvalidArgument, *e);
  }
  return 0;
}

using namespace talos;

// The signature of a snapshot of etcd, which comes with the snapshot from a store or an unknown
// source: `talosctl cluster recover` reads it before it knows its maker.
FUZZ_TARGET(snapshotsignature) {
  static auto* authority =
      new pki::CertificateAndKey(pki::makeAuthority({.keyType = pki::KeyType::kEcdsaP256}));
  bool accepted = false;
  auto failure = kj::runCatchingExceptions([&] {
    verifySnapshot(kj::arrayPtr(data, size), authority->certificate);
    accepted = true;
  });
  // No input can be signed by a CA of this process.
  if (accepted || kindOf(KJ_ASSERT_NONNULL(failure)) != ErrorKind::kInvalidArgument) abort();
  return 0;
}
