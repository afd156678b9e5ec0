// TLS 1.3 client whose caller verifies the server's certificate itself. It shows no certificate of
// its own.
//
// A function with a TLS context of its own for each connection and not an option of TlsEndpoint, so
// an ordinary connection can never skip the usual verification.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/string.h>

namespace talos {

// Gets the certificates that the server sent, as PEM, its own first: the handshake proves that it
// has the key of that one. Returns why the server is refused; none to accept it.
using ServerVerifier = kj::Function<kj::Maybe<kj::String>(kj::ArrayPtr<const kj::String> chain)>;

// A refused server gets an alert and no application data: rejects with Unauthenticated and the
// verifier's error. Unavailable when the handshake fails otherwise.
kj::Promise<kj::Own<kj::AsyncIoStream>> connectWithVerifier(kj::Own<kj::AsyncIoStream> stream,
                                                            ServerVerifier verify);

}  // namespace talos
