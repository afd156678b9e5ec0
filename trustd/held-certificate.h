// The certificate that a caller of trustd already has. trustd renews it for the owner of its key,
// even if machine.token has changed since. So a new token on the control plane cuts off no node
// that has joined, and a machine with only an old token cannot join any more.
//
// The caller proves the key by a signature over the request. A renewal grants nothing beyond the
// certificate: no other name, no other address. A signature that another caller replays renews the
// certificate for the key of the same request, which is useless without this key. The bytes come
// from callers that have proved nothing yet: everything is bounded before it is parsed. Pure.
#pragma once

#include "common/tls/pki.h"
#include "trustd/signing-policy.h"

namespace talos::trustd {

constexpr size_t kMostHeldBytes = 8u << 10;
constexpr size_t kMostSignatureBytes = 256;

struct HeldCertificate {
  kj::ArrayPtr<const kj::byte> certificate = nullptr;  // PEM; only the first certificate is used
  kj::ArrayPtr<const kj::byte> signature = nullptr;
};

// Returns the content of the certificate. Throws Unauthenticated, with the cause, if it is not a
// currently valid server certificate of this CA, or if its key did not sign the message.
pki::CertificateInfo verifyHeld(const HeldCertificate& held, kj::StringPtr message,
                                kj::StringPtr authority, kj::Date now);

// Throws PermissionDenied for a name or an address that the certificate does not have.
void requireNoMore(const Grant& grant, const pki::CertificateInfo& held);

}  // namespace talos::trustd
