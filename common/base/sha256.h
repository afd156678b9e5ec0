// SHA-256 (FIPS 180-4) of data in pieces, and the comparison of secrets by it. Its users link
// libcrypto.
#pragma once

#include <kj/array.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <kj/string.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

namespace talos {

class Sha256 {
 public:
  static constexpr size_t kBytes = 32;

  Sha256() : context(EVP_MD_CTX_new()) {
    KJ_REQUIRE(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  }
  ~Sha256() noexcept(false) { EVP_MD_CTX_free(context); }
  KJ_DISALLOW_COPY_AND_MOVE(Sha256);

  void add(kj::ArrayPtr<const kj::byte> bytes) {
    KJ_REQUIRE(EVP_DigestUpdate(context, bytes.begin(), bytes.size()) == 1);
  }
  // Returns the digest. Only one of finish() and hex() may be called, once.
  kj::Array<kj::byte> finish() {
    auto digest = kj::heapArray<kj::byte>(kBytes);
    KJ_REQUIRE(EVP_DigestFinal_ex(context, digest.begin(), nullptr) == 1);
    return digest;
  }
  kj::String hex() { return kj::encodeHex(finish()); }  // lower case

 private:
  EVP_MD_CTX* context;
};

// Compares secrets in a time that reveals neither where the two differ nor how long `right` is.
// Returns false if `right` is empty: an unset secret matches nothing.
inline bool isSameSecret(kj::StringPtr given, kj::StringPtr right) {
  unsigned char first[SHA256_DIGEST_LENGTH], second[SHA256_DIGEST_LENGTH];
  SHA256(given.asBytes().begin(), given.size(), first);
  SHA256(right.asBytes().begin(), right.size(), second);
  bool same = CRYPTO_memcmp(first, second, sizeof first) == 0;
  return same && right.size() > 0;
}

}  // namespace talos
