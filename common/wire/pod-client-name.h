// Name of a pod's account as a client of the machine API, in its certificate and so in logs: the
// name that Kubernetes gives service accounts, system:serviceaccount:NAMESPACE:NAME. So no account
// has the name of a person, or of an account of another namespace.
#pragma once

#include "common/base/sha256.h"

namespace talos {

constexpr kj::StringPtr kPodClientPrefix = "system:serviceaccount:"_kj;

// A common name has at most 64 characters (RFC 5280). A longer name is cut and gets a part of its
// SHA-256, which keeps it unique: system:serviceaccount:NAMESPACE:NA~HASH.
inline kj::String podClientName(kj::StringPtr nameSpace, kj::StringPtr account) {
  constexpr size_t kMost = 64, kDigits = 16;
  auto name = kj::str(kPodClientPrefix, nameSpace, ":", account);
  if (name.size() <= kMost) return name;
  Sha256 hash;
  hash.add(name.asBytes());
  return kj::str(name.slice(0, kMost - kDigits - 1), "~", hash.hex().slice(0, kDigits));
}

}  // namespace talos
