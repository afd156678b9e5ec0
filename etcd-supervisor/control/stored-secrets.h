// Counts the Secrets of Kubernetes in etcd by the key that encrypts them, which the beginning of
// each value names. Keeps no contents. Reads all at one revision, so the next call sees changes
// made meanwhile.
#pragma once

#include <kj/vector.h>

#include "common/etcd/etcd.h"

namespace talos::supervisor {

constexpr size_t kMostNamedSecrets = 100;

struct StoredSecrets {
  uint64_t total = 0, others = 0;  // others: without the prefix
  kj::Vector<kj::String> names;    // namespace/name of others, the first kMostNamedSecrets
};
// Errors are the store's.
kj::Promise<StoredSecrets> storedSecrets(etcd::Etcd& member, kj::StringPtr prefix);

}  // namespace talos::supervisor
