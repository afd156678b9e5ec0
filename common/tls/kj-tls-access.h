// Access to private members of KJ's TLS: the certificate of a peer, and OpenSSL's context.
//
// kj::TlsPeerIdentity shows a common name only, but roles are organisations; kj::TlsContext has no
// options for session tickets, key exchange groups and error texts. kj-tls-access.cc reaches the
// two private members by explicit instantiation, which the language allows and which stops
// compiling when KJ renames or retypes them: then this file alone has to change.
#pragma once

#include <kj/compat/tls.h>
#include <kj/function.h>

namespace talos {

// The verified certificate of the other end, as PEM.
kj::String peerCertificate(kj::TlsPeerIdentity& identity);

// When a certificate is refused, the exception of the handshake has the error ("certificate has
// expired").
void explainRefusals(kj::TlsContext& context);

// Key exchange X25519 only, no session tickets; and explainRefusals().
void harden(kj::TlsContext& context);

// Makes a server of this context, which verifies clients, accept those that show no certificate,
// too. One that is shown is verified all the same.
void makeCertificatesOptional(kj::TlsContext& context);

// Sets the protocol that a client offers (ALPN), like "h2", for connections started from now on;
// empty: none.
void offerProtocol(kj::TlsContext& context, kj::StringPtr protocol);

// Makes a server of this context select "h2" from the protocols that a client offers (ALPN), and
// none if "h2" is not among them.
void selectHttp2(kj::TlsContext& context);

// Replaces the verification of the server's certificate (CAs, names, validity) by `accept`: it gets
// what the server sent as PEM, its own certificate first, and returns whether to go on. A refusal
// ends the handshake with an alert. For a context that exactly one client connection uses; `accept`
// outlives it. Only tls-custom-verify.cc may call this.
using ChainVerifier = kj::Function<bool(kj::ArrayPtr<const kj::String> chain)>;
void setChainVerifier(kj::TlsContext& context, ChainVerifier& accept);

// The usual verification; but a self-signed certificate, and one that is valid except that it has
// expired, passes and sets `error`. For a context of one connection, as above; `error` outlives it.
// Only TlsEndpoint::connectTolerant() may call this.
void tolerateUnverified(kj::TlsContext& context, kj::Maybe<kj::String>& error);

}  // namespace talos
