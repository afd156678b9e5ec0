// A snapshot of etcd on its way to a store: taken from a member, verified, encrypted to the owner
// of a certificate, and kept in an unlinked file until it is uploaded. No plain text of it is on
// the disk, and a crash leaves no file.
//
// It leaves etcd's disk the reserve of control/snapshot-file.h.
#pragma once

#include "common/etcd/etcd.h"
#include "etcd-supervisor/backup/object-store.h"

namespace talos::supervisor {

// Largest request that S3 accepts ("Uploading objects", Amazon S3 User Guide).
constexpr uint64_t kMostUploadBytes = uint64_t{5} << 30;

struct SpooledSnapshot {
  UploadFile file;
  // Size and SHA-256 of the database in the snapshot, which its signature names.
  uint64_t databaseBytes;
  kj::Array<kj::byte> digest;
};

// `recipient`: PEM. `folder` belongs to etcd-supervisor. Fails with ResourceExhausted if the disk
// is full, with InvalidArgument if the member's answer is not a snapshot or is too large, otherwise
// with the member's error.
kj::Promise<SpooledSnapshot> spoolSnapshot(etcd::Etcd& member, DiskQueue& queue,
                                           kj::StringPtr folder, kj::StringPtr recipient);
// Spools a few bytes for a store, too.
kj::Promise<UploadFile> spoolBytes(DiskQueue& queue, kj::StringPtr folder,
                                   kj::Array<kj::byte> bytes);

}  // namespace talos::supervisor
