// The name of a pod's account as a client of the machine API, in its certificate and with it in
// logs: that of Kubernetes' service accounts, system:serviceaccount:NAMESPACE:NAME. So no account
// has the name of a person, nor that of an account of another namespace.
#pragma once

#include "common/base/sha256.h"

namespace talos {

constexpr kj::StringPtr kPodClientPrefix = "system:serviceaccount:"_kj;

// A common name has at most 64 characters (RFC 5280). Of a longer name a beginning is left, and
// some of its SHA-256, which makes it one of its own: system:serviceaccount:NAMESPACE:NA~HASH.
inline kj::String podClientName(kj::StringPtr nameSpace, kj::StringPtr account) {
  constexpr size_t kMost = 64, kDigits = 16;
  auto name = kj::str(kPodClientPrefix, nameSpace, ":", account);
  if (name.size() <= kMost) return name;
  Sha256 hash;
  hash.add(name.asBytes());
  return kj::str(name.slice(0, kMost - kDigits - 1), "~", hash.hex().slice(0, kDigits));
}

}  // namespace talos
