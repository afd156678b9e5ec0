// SHA-256 (FIPS 180-4) of data in pieces. Its users link libcrypto.
#pragma once

#include <kj/array.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <openssl/evp.h>

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

}  // namespace talos
