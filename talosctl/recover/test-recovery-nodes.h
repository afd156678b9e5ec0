// For tests: control-plane nodes 10.5.0.2, 10.5.0.3 … with the members m-1, m-2 …
#pragma once

#include <string.h>

#include <vector>

#include "common/tls/pki.h"
#include "talosctl/recover/recovery-plan.h"

namespace talos::talosctl {

// Returns the CA of their etcd.
inline const pki::CertificateAndKey& authority() {
  static const auto made = pki::makeAuthority({.keyType = pki::KeyType::kEcdsaP256});
  return made;
}

// Returns a signature for a database of this size, by a member of the cluster with this CA.
inline SignedSnapshot signedSnapshot(const pki::CertificateAndKey& ca = authority(),
                                     uint64_t bytes = 1024) {
  auto member = pki::issue(ca.certificate, ca.key, {.commonName = "m-1"});
  auto digest = kj::heapArray<kj::byte>(32);
  memset(digest.begin(), 7, digest.size());
  SignedSnapshot snapshot;
  snapshot.signature = signSnapshot({.taken = kj::systemPreciseCalendarClock().now(),
                                     .cluster = 0xc1,
                                     .bytes = bytes,
                                     .sha256 = kj::heapArray(digest.asPtr())},
                                    member.certificate, member.key);
  snapshot.databaseBytes = 1024;
  snapshot.digest = kj::mv(digest);
  return snapshot;
}

inline RecoveryNode emptyNode(unsigned number) {
  RecoveryNode node;
  node.address = kj::str("10.5.0.", number + 1);
  node.hostname = kj::str("new-", number);
  node.bootId = kj::str("boot-", number);
  node.controlPlane = true;
  node.phase = kj::str("waiting");
  node.authorities = kj::str(authority().certificate);
  return node;
}

// Returns a node without a quorum; `members` are the members of its cluster.
inline RecoveryNode survivorOf(unsigned number, std::vector<unsigned> members) {
  auto node = emptyNode(number);
  node.hostname = kj::str("m-", number);
  node.phase = kj::str("member");
  node.revision = 100;
  for (auto member : members) {
    node.members.add(KnownMember{kj::str("m-", member), kj::str("10.5.0.", member + 1), false});
  }
  return node;
}

}  // namespace talos::talosctl
