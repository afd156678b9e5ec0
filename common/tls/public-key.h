// Public keys: derives the public key of a private one, and checks by key, not by name, who signed
// a certificate: a CA that was replaced by another one of the same name is another one. Pure.
#pragma once

#include <kj/string.h>

namespace talos::pki {

// False as well for what does not parse. Neither validity nor usage is looked at.
bool isSignedBy(kj::StringPtr certificatePem, kj::StringPtr authorityPem);

// PEM, "PUBLIC KEY" (SubjectPublicKeyInfo). InvalidArgument for any other text.
kj::String publicKeyOf(kj::StringPtr keyPem);
// The same of a certificate's key.
kj::String publicKeyOfCertificate(kj::StringPtr certificatePem);

}  // namespace talos::pki
