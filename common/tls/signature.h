// Signatures as made by `openssl dgst -sign`, `openssl pkeyutl -sign -rawin` and `cosign sign-blob
// --key`: verifies those of files, with the public key that the machine config names, and makes and
// verifies those by which a node shows its key (common/kube/node-proof.h). Pure.
#pragma once

#include <kj/memory.h>
#include <kj/string.h>

namespace talos::pki {

class VerifyKey {
 public:
  // ECDSA on P-256, with SHA-256, or Ed25519. InvalidArgument for any other text.
  explicit VerifyKey(kj::StringPtr pem);
  ~VerifyKey() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(VerifyKey);

  // "SHA256:" and the digest of the key in DER, in hex: what people compare.
  kj::StringPtr name() const { return called; }
  // False also for bytes that are not a signature.
  bool verifies(kj::ArrayPtr<const kj::byte> message, kj::ArrayPtr<const kj::byte> signature) const;
  // Ed25519 reads a message twice: there is no SignatureCheck by such a key.
  bool needsWhole() const;

 private:
  friend class SignatureCheck;
  struct Impl;
  kj::Own<Impl> impl;
  kj::String called;
};

// By a private key of one of these types (PEM). InvalidArgument for any other text.
kj::Array<kj::byte> sign(kj::StringPtr keyPem, kj::ArrayPtr<const kj::byte> message);

// Verifies a message that arrives in pieces, without storing it.
class SignatureCheck {
 public:
  explicit SignatureCheck(const VerifyKey& key);
  ~SignatureCheck() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(SignatureCheck);

  void add(kj::ArrayPtr<const kj::byte> bytes);
  bool fits(kj::ArrayPtr<const kj::byte> signature);  // the last call

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

// The content of a file of a signature: its bytes, or base64 of them. InvalidArgument when it is
// neither, or longer than signatures are.
constexpr size_t kMostSignatureFile = 1024;
kj::Array<kj::byte> signatureOf(kj::ArrayPtr<const kj::byte> file);

// "sha256:" and the digest of these bytes in hex.
kj::String sha256Of(kj::ArrayPtr<const kj::byte> bytes);

}  // namespace talos::pki
