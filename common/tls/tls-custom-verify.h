// TLS 1.3 client whose caller verifies the server's certificate itself. It sends no client
// certificate.
//
// This is a function with a separate TLS context for each connection, not an option of TlsEndpoint,
// so that an ordinary connection can never skip the usual verification.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/string.h>

namespace talos {

// Gets the certificates that the server sent, as PEM, its own first: the handshake proves that the
// server has the key of the first. Returns the error for which the server is refused; nullptr to
// accept it.
using ServerVerifier = kj::Function<kj::Maybe<kj::String>(kj::ArrayPtr<const kj::String> chain)>;

// Connects. A refused server gets an alert and no application data: rejects with Unauthenticated
// and the verifier's error. Rejects with Unavailable if the handshake fails otherwise.
kj::Promise<kj::Own<kj::AsyncIoStream>> connectWithVerifier(kj::Own<kj::AsyncIoStream> stream,
                                                            ServerVerifier verify);

}  // namespace talos
