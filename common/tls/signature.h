// Signatures as made by `openssl dgst -sign`, `openssl pkeyutl -sign -rawin` and `cosign sign-blob
// --key`: verifies signatures of files, with the public key that the machine config names, and
// makes and verifies the signatures by which a node proves its key (common/kube/node-proof.h).
// Pure.
#pragma once

#include <kj/memory.h>
#include <kj/string.h>

namespace talos::pki {

class VerifyKey {
 public:
  // Reads a key for ECDSA on P-256, with SHA-256, or Ed25519. Throws InvalidArgument for any other
  // text.
  explicit VerifyKey(kj::StringPtr pem);
  ~VerifyKey() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(VerifyKey);

  // Returns "SHA256:" and the digest of the key in DER, in hex, for users to compare.
  kj::StringPtr name() const { return called; }
  // Returns false also for bytes that are not a signature.
  bool verifies(kj::ArrayPtr<const kj::byte> message, kj::ArrayPtr<const kj::byte> signature) const;
  // Returns true if a message must be in memory as a whole: Ed25519 reads it twice, so there is no
  // SignatureCheck with such a key.
  bool needsWhole() const;

 private:
  friend class SignatureCheck;
  struct Impl;
  kj::Own<Impl> impl;
  kj::String called;
};

// Signs with a private key of one of these types (PEM). Throws InvalidArgument for any other text.
kj::Array<kj::byte> sign(kj::StringPtr keyPem, kj::ArrayPtr<const kj::byte> message);

// Verifies a message that arrives in pieces, without storing it.
class SignatureCheck {
 public:
  explicit SignatureCheck(const VerifyKey& key);
  ~SignatureCheck() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(SignatureCheck);

  void add(kj::ArrayPtr<const kj::byte> bytes);
  bool fits(kj::ArrayPtr<const kj::byte> signature);  // must be the last call

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

// Returns the content of a signature's file: its bytes, or the decoded base64. Throws
// InvalidArgument if it is neither, or longer than signatures are.
constexpr size_t kMostSignatureFile = 1024;
kj::Array<kj::byte> signatureOf(kj::ArrayPtr<const kj::byte> file);

// Returns "sha256:" and the digest of these bytes in hex.
kj::String sha256Of(kj::ArrayPtr<const kj::byte> bytes);

}  // namespace talos::pki
