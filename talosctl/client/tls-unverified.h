// TLS 1.3 to a node that has no config yet: the node's certificate is self-signed, and the client
// has no certificate.
//
// Such a node generates a key at each boot and shows its fingerprint on its console. Only the
// fingerprint is compared; the handshake proves that the peer has the key.
#pragma once

#include <kj/async-io.h>
#include <kj/string.h>

namespace talos {

struct UnverifiedStream {
  kj::Own<kj::AsyncIoStream> stream;
  kj::String fingerprint;  // pki::fingerprint() of the server's certificate
};

// If there are fingerprints, the server must have one of them. Otherwise the handshake fails before
// any data of the client is sent, with an Unauthenticated error that names both sides. Without
// fingerprints any server is accepted, and the caller shows the server's fingerprint to the user.
kj::Promise<UnverifiedStream> connectUnverified(kj::Own<kj::AsyncIoStream> stream,
                                                kj::ArrayPtr<const kj::String> fingerprints);

// Throws InvalidArgument unless the text has the form of a fingerprint: base64 of 32 bytes.
void checkFingerprint(kj::StringPtr text);

}  // namespace talos
