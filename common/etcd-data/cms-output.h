// Encrypts a stream to the owner of a certificate: CMS (RFC 5652, RFC 5083) with AES-256-GCM, as
// `openssl cms -decrypt -binary -inform DER -inkey key.pem` reads it.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos {

constexpr size_t kMostCertificate = 64u << 10;

// A certificate whose key can receive a secret: RSA or a curve of NIST. Throws InvalidArgument
// naming `source` (a file, a key of the config) if it is not one.
class CmsRecipient {
 public:
  CmsRecipient(kj::StringPtr pem, kj::StringPtr source);
  ~CmsRecipient() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(CmsRecipient);

 private:
  friend class CmsOutput;
  void* certificates;  // STACK_OF(X509)
};

class CmsOutput {
 public:
  // Writes to the descriptor, which remains the caller's.
  CmsOutput(int fd, const CmsRecipient& recipient);
  ~CmsOutput() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(CmsOutput);

  // Both throw FailedPrecondition if they cannot write.
  void write(kj::ArrayPtr<const kj::byte> bytes);
  void finish();

 private:
  struct Parts;
  Parts* parts;
};

}  // namespace talos
