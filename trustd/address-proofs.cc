#include "trustd/address-proofs.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <string.h>

#include "common/base/error.h"
#include "common/tls/pki.h"

namespace talos::trustd {
namespace {

// A proof: the code, then the authenticated data: the end of validity and the address.
constexpr size_t kCode = SHA256_DIGEST_LENGTH, kEnd = sizeof(int64_t);

int64_t nanosecondsOf(kj::TimePoint time) {
  return (time - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS;
}

void authenticate(kj::ArrayPtr<const kj::byte> key, kj::ArrayPtr<const kj::byte> content,
                  kj::byte* code) {
  unsigned size = 0;
  auto made = HMAC(EVP_sha256(), key.begin(), int(key.size()), content.begin(), content.size(),
                   code, &size);
  if (made == nullptr || size != kCode) fail(ErrorKind::kInternal, "HMAC-SHA256 is not available");
}

}  // namespace

AddressProofs::AddressProofs(const kj::MonotonicClock& clock)
    : clock(clock), key(pki::randomBytes(SHA256_DIGEST_LENGTH)) {}

kj::Array<kj::byte> AddressProofs::make(const Ip& caller) const {
  auto address = caller.bytes();
  auto end = nanosecondsOf(clock.now() + kLifetime);
  auto proof = kj::heapArray<kj::byte>(kCode + kEnd + address.size());
  memcpy(proof.begin() + kCode, &end, kEnd);
  memcpy(proof.begin() + kCode + kEnd, address.begin(), address.size());
  authenticate(key, proof.slice(kCode, proof.size()), proof.begin());
  return proof;
}

kj::Maybe<Ip> AddressProofs::check(kj::ArrayPtr<const kj::byte> proof) const {
  if (proof.size() <= kCode + kEnd) return nullptr;
  kj::byte code[kCode];
  authenticate(key, proof.slice(kCode, proof.size()), code);
  if (CRYPTO_memcmp(code, proof.begin(), kCode) != 0) return nullptr;
  int64_t end = 0;
  memcpy(&end, proof.begin() + kCode, kEnd);
  if (nanosecondsOf(clock.now()) >= end) return nullptr;
  return Ip::fromBytes(proof.slice(kCode + kEnd, proof.size()));
}

}  // namespace talos::trustd
