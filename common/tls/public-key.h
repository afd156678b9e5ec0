// Public keys: that of a private one, and who signed a certificate, by the key and not by the name:
// an authority that was replaced by another one of the same name is another one. Pure.
#pragma once

#include <kj/string.h>

namespace talos::pki {

// False as well for what does not parse. Neither validity nor usage is looked at.
bool isSignedBy(kj::StringPtr certificatePem, kj::StringPtr authorityPem);

// PEM, "PUBLIC KEY" (SubjectPublicKeyInfo). InvalidArgument for what is no private key.
kj::String publicKeyOf(kj::StringPtr keyPem);

}  // namespace talos::pki
