// TLS 1.3 to a machine that has no config yet: nobody has signed its certificate, and we show none.
//
// Such a machine makes a key at each start and says its fingerprint on its console. What is
// compared is that alone; the handshake proves that the peer has the key.
#pragma once

#include <kj/async-io.h>
#include <kj/string.h>

namespace talos {

struct UnverifiedStream {
  kj::Own<kj::AsyncIoStream> stream;
  kj::String fingerprint;  // pki::fingerprint() of the server's certificate
};

// With fingerprints, one of them must be the server's: if not, the handshake is broken off before a
// byte of ours is sent, with Unauthenticated naming what was expected and what was found. Without,
// any server is taken, and the caller tells the user whom it got.
kj::Promise<UnverifiedStream> connectUnverified(kj::Own<kj::AsyncIoStream> stream,
                                                kj::ArrayPtr<const kj::String> fingerprints);

// Throws InvalidArgument when the text can be no fingerprint: base64 of 32 bytes.
void checkFingerprint(kj::StringPtr text);

}  // namespace talos
