// Public keys: derives the public key of a private one, and checks by key, not by name, who signed
// a certificate: a CA that was replaced by another one of the same name is another one. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::pki {

// False as well for what does not parse. Neither validity nor usage is looked at.
bool isSignedBy(kj::StringPtr certificatePem, kj::StringPtr authorityPem);

// PEM, "PUBLIC KEY" (SubjectPublicKeyInfo). InvalidArgument for any other text.
kj::String publicKeyOf(kj::StringPtr keyPem);
// The same of a certificate's key.
kj::String publicKeyOfCertificate(kj::StringPtr certificatePem);

// Each public key of a text, by its markers alone: what is between them is not parsed.
kj::Vector<kj::String> publicKeysIn(kj::StringPtr pem);
// The id by which the service account tokens of Kubernetes name the key that signed them (kid):
// base64url of SHA-256 over SubjectPublicKeyInfo. InvalidArgument for what is not the public key
// (PEM) of RSA or ECDSA.
kj::String tokenKeyId(kj::StringPtr publicKeyPem);
bool isRsaKey(kj::StringPtr keyPem);  // a private one; InvalidArgument for any other text

}  // namespace talos::pki
