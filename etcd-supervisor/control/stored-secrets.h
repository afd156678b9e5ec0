// With which key the Secrets of Kubernetes are stored in etcd, by the text that each begins with.
// Their contents are not kept. All of one revision, so a change meanwhile is seen by the next call.
#pragma once

#include <kj/vector.h>

#include "common/etcd/etcd.h"

namespace talos::supervisor {

constexpr size_t kMostNamedSecrets = 100;

struct StoredSecrets {
  uint64_t total = 0, others = 0;  // others: they do not begin with the prefix
  kj::Vector<kj::String> names;    // of others, namespace/name, the first kMostNamedSecrets
};
// An error is the store's.
kj::Promise<StoredSecrets> storedSecrets(etcd::Etcd& member, kj::StringPtr prefix);

}  // namespace talos::supervisor
