// Compares secrets. Its users link libcrypto.
#pragma once

#include <kj/string.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace talos {

// Compares in a time that reveals neither where the two differ nor how long `right` is. Returns
// false if `right` is empty: an unset secret matches nothing.
inline bool isSameSecret(kj::StringPtr given, kj::StringPtr right) {
  unsigned char first[SHA256_DIGEST_LENGTH], second[SHA256_DIGEST_LENGTH];
  SHA256(given.asBytes().begin(), given.size(), first);
  SHA256(right.asBytes().begin(), right.size(), second);
  bool same = CRYPTO_memcmp(first, second, sizeof first) == 0;
  return same && right.size() > 0;
}

}  // namespace talos
