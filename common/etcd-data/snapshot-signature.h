// Signature of a snapshot of etcd: CMS (RFC 5652) SignedData by the certificate of a member of
// etcd, with a statement of the snapshot's time, cluster and bytes. This command prints it:
//
//   openssl cms -verify -inform DER -in FILE.sig -CAfile ca.pem -purpose sslserver -no_check_time
//
// Encryption proves nothing about a snapshot's origin: the recipient's certificate is public.
// Server certificates of cluster.etcd.ca are issued only to members, and a member may write
// anything into etcd. The certificate must have been valid when the snapshot was taken, not now.
// Pure.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/time.h>

namespace talos {

constexpr size_t kMostSnapshotSignature = 16u << 10;
// Suffix that makes the name of a signature from the name of its snapshot.
constexpr kj::StringPtr kSignatureSuffix = ".sig"_kj;

struct SnapshotStatement {
  kj::Date taken = kj::UNIX_EPOCH;  // by the member's clock
  uint64_t cluster = 0;             // id
  uint64_t bytes = 0;               // size of the database
  kj::Array<kj::byte> sha256;       // hash of the database; the snapshot ends with it

  // Throws InvalidArgument if the signature is of another database.
  void requireFor(uint64_t databaseBytes, kj::ArrayPtr<const kj::byte> digest) const;
};

// `certificate`, `key`: PEM, a member's.
kj::Array<kj::byte> signSnapshot(const SnapshotStatement& statement, kj::StringPtr certificate,
                                 kj::StringPtr key);

// Returns the statement of a signature by a member. `authorities`: PEM, one CA of etcd or more.
// Throws InvalidArgument with the fault of the bytes or of the signer.
SnapshotStatement verifySnapshot(kj::ArrayPtr<const kj::byte> signature, kj::StringPtr authorities);

}  // namespace talos
