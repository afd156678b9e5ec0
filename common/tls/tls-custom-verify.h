// TLS 1.3 to a server whose certificate somebody else than TLS judges, and to which we show none.
//
// A function with a context of its own for each connection and no switch of TlsEndpoint, so an
// ordinary connection can never go without the usual verification.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/string.h>

namespace talos {

// Sees the certificates that the server sent, as PEM, its own first: the handshake proves that it
// has the key of that one. Says why it is not the right server; none when it is.
using JudgeServer = kj::Function<kj::Maybe<kj::String>(kj::ArrayPtr<const kj::String> chain)>;

// A server that is refused gets an alert and not a byte of ours: Unauthenticated with the reason.
// Unavailable when the handshake fails otherwise.
kj::Promise<kj::Own<kj::AsyncIoStream>> connectJudged(kj::Own<kj::AsyncIoStream> stream,
                                                      JudgeServer judge);

}  // namespace talos
