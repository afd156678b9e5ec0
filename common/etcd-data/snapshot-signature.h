// The signature of a snapshot of etcd: CMS (RFC 5652) SignedData with a statement of when, of which
// cluster and of which bytes the snapshot is, by the certificate of a member of etcd. Prints it:
//
//   openssl cms -verify -inform DER -in FILE.sig -CAfile ca.pem -purpose sslserver -no_check_time
//
// Encryption proves nothing about a snapshot's origin: everybody may have the recipient's
// certificate. Server certificates of cluster.etcd.ca are issued to members alone, and a member may
// write into etcd whatever it wants. The certificate must have been valid when the snapshot was
// taken, not now. Pure.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/time.h>

namespace talos {

constexpr size_t kMostSnapshotSignature = 16u << 10;
// Follows the name of the snapshot in that of its signature.
constexpr kj::StringPtr kSignatureSuffix = ".sig"_kj;

struct SnapshotStatement {
  kj::Date taken = kj::UNIX_EPOCH;  // by the clock of the member
  uint64_t cluster = 0;             // id
  uint64_t bytes = 0;               // of the database
  kj::Array<kj::byte> sha256;       // of the database; the snapshot ends with it

  // InvalidArgument if the database that was signed is another one.
  void requireFor(uint64_t databaseBytes, kj::ArrayPtr<const kj::byte> digest) const;
};

// `certificate`, `key`: PEM, of a member.
kj::Array<kj::byte> signSnapshot(const SnapshotStatement& statement, kj::StringPtr certificate,
                                 kj::StringPtr key);

// The statement of a signature by a member. `authorities`: PEM, one CA of etcd or more.
// InvalidArgument says what is wrong with the bytes or with who signed them.
SnapshotStatement verifySnapshot(kj::ArrayPtr<const kj::byte> signature, kj::StringPtr authorities);

}  // namespace talos
