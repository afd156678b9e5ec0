#include "common/tls/signature.h"

#include <kj/encoding.h>
#include <kj/vector.h>
#include <openssl/err.h>
#include <openssl/sha.h>
#include <string.h>

#include "common/base/error.h"
#include "common/tls/openssl.h"

namespace talos::pki {
namespace {

using DigestContext = Handle<EVP_MD_CTX, EVP_MD_CTX_free>;

// The shortest that there is: two numbers of one byte each, in DER. A P-256 one has at most 72.
constexpr size_t kLeastSignature = 8, kMostSignature = 80;

kj::String digestHex(kj::ArrayPtr<const kj::byte> bytes) {
  kj::byte digest[SHA256_DIGEST_LENGTH];
  SHA256(bytes.begin(), bytes.size(), digest);
  return kj::encodeHex(kj::ArrayPtr<const kj::byte>(digest));
}

bool isP256(EVP_PKEY* key) {
  char group[64] = "";
  return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
         EVP_PKEY_get_group_name(key, group, sizeof group, nullptr) == 1 &&
         kj::StringPtr(group) == "prime256v1";
}

bool isBlank(kj::byte c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

}  // namespace

struct VerifyKey::Impl {
  Key key;
  bool ed25519;

  DigestContext begin() const {
    DigestContext context(EVP_MD_CTX_new());
    check(context != nullptr, "verifying a signature");
    auto* digest = ed25519 ? nullptr : EVP_sha256();
    check(EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key.get()) == 1,
          "verifying a signature");
    return context;
  }
};

VerifyKey::VerifyKey(kj::StringPtr pem) : impl(kj::heap<Impl>()) {
  KJ_DEFER(ERR_clear_error());
  impl->key = readPublicKey(pem);
  impl->ed25519 = EVP_PKEY_get_base_id(impl->key.get()) == EVP_PKEY_ED25519;
  if (!impl->ed25519 && !isP256(impl->key.get())) {
    fail(ErrorKind::kInvalidArgument, "the public key is not one of ECDSA P-256 or Ed25519");
  }
  unsigned char* der = nullptr;
  int size = i2d_PUBKEY(impl->key.get(), &der);
  check(size > 0, "encoding a public key");
  KJ_DEFER(OPENSSL_free(der));
  called = kj::str("SHA256:", digestHex(kj::arrayPtr(der, static_cast<size_t>(size))));
}

VerifyKey::~VerifyKey() noexcept(false) {}

bool VerifyKey::verifies(kj::ArrayPtr<const kj::byte> message,
                         kj::ArrayPtr<const kj::byte> signature) const {
  KJ_DEFER(ERR_clear_error());
  auto context = impl->begin();
  return EVP_DigestVerify(context.get(), signature.begin(), signature.size(), message.begin(),
                          message.size()) == 1;
}

bool VerifyKey::needsWhole() const {
  return impl->ed25519;
}

kj::Array<kj::byte> sign(kj::StringPtr keyPem, kj::ArrayPtr<const kj::byte> message) {
  KJ_DEFER(ERR_clear_error());
  auto key = readKey(keyPem);
  bool ed25519 = EVP_PKEY_get_base_id(key.get()) == EVP_PKEY_ED25519;
  if (!ed25519 && !isP256(key.get())) {
    fail(ErrorKind::kInvalidArgument, "the key is not one of ECDSA P-256 or Ed25519");
  }
  DigestContext context(EVP_MD_CTX_new());
  check(context != nullptr, "signing");
  auto* digest = ed25519 ? nullptr : EVP_sha256();
  check(EVP_DigestSignInit(context.get(), nullptr, digest, nullptr, key.get()) == 1, "signing");
  kj::byte signature[kMostSignature];
  size_t size = sizeof signature;
  check(EVP_DigestSign(context.get(), signature, &size, message.begin(), message.size()) == 1,
        "signing");
  return kj::heapArray<kj::byte>(kj::arrayPtr(signature, size));
}

struct SignatureCheck::Impl {
  DigestContext context;
};

SignatureCheck::SignatureCheck(const VerifyKey& key)
    : impl(kj::heap<Impl>(Impl{key.impl->begin()})) {
  KJ_REQUIRE(!key.needsWhole());
}

SignatureCheck::~SignatureCheck() noexcept(false) {}

void SignatureCheck::add(kj::ArrayPtr<const kj::byte> bytes) {
  check(EVP_DigestVerifyUpdate(impl->context.get(), bytes.begin(), bytes.size()) == 1,
        "verifying a signature");
}

bool SignatureCheck::fits(kj::ArrayPtr<const kj::byte> signature) {
  KJ_DEFER(ERR_clear_error());
  return EVP_DigestVerifyFinal(impl->context.get(), signature.begin(), signature.size()) == 1;
}

kj::Array<kj::byte> signatureOf(kj::ArrayPtr<const kj::byte> file) {
  auto refuse = []() {
    fail(ErrorKind::kInvalidArgument,
         "not a signature; use what openssl dgst -sign or cosign sign-blob writes");
  };
  if (file.size() > kMostSignatureFile) refuse();
  kj::Vector<char> text;
  bool base64 = file.size() > 0;
  for (auto c : file) {
    if (isBlank(c)) continue;
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '+' || c == '/' || c == '=';
    base64 = base64 && good;
    text.add(static_cast<char>(c));
  }
  auto bytes = kj::heapArray(file);
  if (base64) {
    auto decoded = kj::decodeBase64(text.asPtr());
    if (decoded.hadErrors) refuse();
    bytes = kj::mv(decoded);
  }
  if (bytes.size() < kLeastSignature || bytes.size() > kMostSignature) refuse();
  return bytes;
}

kj::String sha256Of(kj::ArrayPtr<const kj::byte> bytes) {
  return kj::str("sha256:", digestHex(bytes));
}

}  // namespace talos::pki
