// TLS 1.3 to a node that has no config yet: its certificate is self-signed, and we have none.
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

// With fingerprints, the server must have one of them: if not, the handshake fails before any of
// our data is sent, with Unauthenticated naming both. Without fingerprints any server is accepted,
// and the caller shows the user its fingerprint.
kj::Promise<UnverifiedStream> connectUnverified(kj::Own<kj::AsyncIoStream> stream,
                                                kj::ArrayPtr<const kj::String> fingerprints);

// Throws InvalidArgument unless the text can be a fingerprint: base64 of 32 bytes.
void checkFingerprint(kj::StringPtr text);

}  // namespace talos
