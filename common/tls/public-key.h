// Public keys: derives the public key of a private one, and checks by key, not by name, which CA
// signed a certificate: a CA whose successor has the same name is another CA. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::pki {

// Returns false also for text that does not parse. Does not check validity and usage.
bool isSignedBy(kj::StringPtr certificatePem, kj::StringPtr authorityPem);

// Returns PEM, "PUBLIC KEY" (SubjectPublicKeyInfo). Throws InvalidArgument for any other text.
kj::String publicKeyOf(kj::StringPtr keyPem);
// Does the same for a certificate's key.
kj::String publicKeyOfCertificate(kj::StringPtr certificatePem);

// Returns each public key of a text, found by its markers alone: the content is not parsed.
kj::Vector<kj::String> publicKeysIn(kj::StringPtr pem);
// Returns the id by which the service account tokens of Kubernetes name the key that signed them
// (kid): base64url of SHA-256 over SubjectPublicKeyInfo. Throws InvalidArgument if the text is not
// the public key (PEM) of RSA or ECDSA.
kj::String tokenKeyId(kj::StringPtr publicKeyPem);
bool isRsaKey(kj::StringPtr keyPem);  // a private key; InvalidArgument for any other text

}  // namespace talos::pki
