// The certificate that a caller of trustd already has: it is renewed for whoever has its key, also
// when machine.token is another by now. So a new token on the control plane cuts off no node that
// has joined, and who has only an old token joins no more.
//
// The key is shown by a signature over the request; the certificate gives nothing that it does not
// have itself: no other name, no other address. A signature that somebody else sends again renews
// the certificate for the key of the same request, which is of no use without that key. Foreign
// bytes, of callers that have shown nothing yet: everything is bounded before it is parsed. Pure.
#pragma once

#include "common/tls/pki.h"
#include "trustd/signing-policy.h"

namespace talos::trustd {

constexpr size_t kMostHeldBytes = 8u << 10;
constexpr size_t kMostSignatureBytes = 256;

struct HeldCertificate {
  kj::ArrayPtr<const kj::byte> certificate = nullptr;  // PEM, the first one counts
  kj::ArrayPtr<const kj::byte> signature = nullptr;
};

// The content of the certificate. Unauthenticated, with the reason, when it is not a server's of
// this CA that is valid now, or when its key did not sign the message.
pki::CertificateInfo verifyHeld(const HeldCertificate& held, kj::StringPtr message,
                                kj::StringPtr authority, kj::Date now);

// PermissionDenied for a name or an address that the certificate does not have.
void requireNoMore(const Grant& grant, const pki::CertificateInfo& held);

}  // namespace talos::trustd
