// A snapshot of etcd on its way to a store: taken from a member, verified, encrypted to the owner
// of a certificate, and kept in a file without a name until it is uploaded. Nothing of it is on
// the disk in plain, and a crash leaves nothing behind.
//
// It leaves the disk of etcd its reserve (control/snapshot-limits.h).
#pragma once

#include "common/etcd/etcd.h"
#include "etcd-supervisor/backup/object-store.h"

namespace talos::supervisor {

// The most that one request of S3 takes ("Uploading objects", Amazon S3 User Guide).
constexpr uint64_t kMostUploadBytes = uint64_t{5} << 30;

struct SpooledSnapshot {
  UploadFile file;
  // The size and the SHA-256 of the database in the snapshot, which its signature names.
  uint64_t databaseBytes;
  kj::Array<kj::byte> digest;
};

// `recipient`: PEM. `folder` is etcd-supervisor's own. ResourceExhausted: the disk is full;
// InvalidArgument: what the member sent is no snapshot, or is too large; else the member's error.
kj::Promise<SpooledSnapshot> spoolSnapshot(etcd::Etcd& member, DiskQueue& queue,
                                           kj::StringPtr folder, kj::StringPtr recipient);
// A few bytes, on their way to a store as well.
kj::Promise<UploadFile> spoolBytes(DiskQueue& queue, kj::StringPtr folder,
                                   kj::Array<kj::byte> bytes);

}  // namespace talos::supervisor
