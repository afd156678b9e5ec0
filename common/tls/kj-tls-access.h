// What KJ's TLS keeps to itself and we need: the certificate of a peer, and the context under it.
//
// kj::TlsPeerIdentity shows a common name only, roles are organisations; kj::TlsContext has no
// switch for session tickets, key exchange groups and the reason of a refusal. tls-peer.cc reaches
// the two private members by explicit instantiation, which the language allows and which stops
// compiling when KJ renames or retypes them: then this file is all there is to mend.
#pragma once

#include <kj/compat/tls.h>
#include <kj/function.h>

namespace talos {

// The verified certificate of the other end, as PEM.
kj::String peerCertificate(kj::TlsPeerIdentity& identity);

// A certificate that is refused leaves its reason ("certificate has expired") in the exception of
// the handshake.
void explainRefusals(kj::TlsContext& context);

// Spec machine-api.md §4.2: key exchange X25519, no session tickets; and explainRefusals().
void harden(kj::TlsContext& context);

// What a client says that it speaks (ALPN): "h2". Of the connections that begin from now on; empty:
// nothing.
void speak(kj::TlsContext& context, kj::StringPtr protocol);

// Of what a client says that it speaks, a server of this context chooses "h2", and nothing if that
// is not among it.
void chooseH2(kj::TlsContext& context);

// Nobody's word but that of `accept` decides about the server's certificate, in place of
// authorities, names and validity: it sees what the server sent as PEM, its own certificate first,
// and says whether to go on. A refusal ends the handshake with an alert. For a context that one
// client connection uses and that nothing else ever does; `accept` lives longer than it. Only
// tls-judged.cc may call this.
using AcceptChain = kj::Function<bool(kj::ArrayPtr<const kj::String> chain)>;
void acceptOnlyBy(kj::TlsContext& context, AcceptChain& accept);

// The usual verification; but a certificate that nobody signed except its owner, and one that is
// right but has expired, is let pass and `why` is filled in. For a context of one connection, as
// above; `why` lives longer than it. Only TlsEndpoint::reach() may call this.
void letUnprovenPass(kj::TlsContext& context, kj::Maybe<kj::String>& why);

}  // namespace talos
