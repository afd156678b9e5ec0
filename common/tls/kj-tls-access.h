// Gives access to private members of KJ's TLS: the certificate of a peer, and OpenSSL's context.
//
// kj::TlsPeerIdentity shows only a common name, but roles are organisations; kj::TlsContext has no
// options for session tickets, key exchange groups and error texts. kj-tls-access.cc reaches the
// two private members by explicit instantiation, which the language allows and which stops
// compiling when KJ renames or retypes them: then only this file has to change.
#pragma once

#include <kj/compat/tls.h>
#include <kj/function.h>

namespace talos {

// Returns the verified certificate of the other end, as PEM.
kj::String peerCertificate(kj::TlsPeerIdentity& identity);

// Puts the error ("certificate has expired") into the exception of a handshake that refuses a
// certificate.
void explainRefusals(kj::TlsContext& context);

// Allows only the key exchange X25519, disables session tickets, and calls explainRefusals().
void harden(kj::TlsContext& context);

// Makes a server of this context, which verifies clients, also accept clients without a
// certificate. A certificate that a client sends is still verified.
void makeCertificatesOptional(kj::TlsContext& context);

// Sets the protocol that a client offers (ALPN), like "h2", for connections started from now on;
// empty for none.
void offerProtocol(kj::TlsContext& context, kj::StringPtr protocol);

// Makes a server of this context select "h2" from the protocols that a client offers (ALPN), and
// none if "h2" is not among them.
void selectHttp2(kj::TlsContext& context);

// Replaces the verification of the server's certificate (CAs, names, validity) by `accept`: it gets
// the certificates that the server sent as PEM, the server's own first, and returns true to accept
// them. A refusal ends the handshake with an alert. For a context that exactly one client
// connection uses; `accept` must outlive it. Only tls-custom-verify.cc may call this.
using ChainVerifier = kj::Function<bool(kj::ArrayPtr<const kj::String> chain)>;
void setChainVerifier(kj::TlsContext& context, ChainVerifier& accept);

// Verifies as usual, but accepts and sets `error` for a self-signed certificate, and for one that
// is valid except that it has expired. For a context of one connection, as above; `error` must
// outlive it. Only TlsEndpoint::connectTolerant() may call this.
void tolerateUnverified(kj::TlsContext& context, kj::Maybe<kj::String>& error);

}  // namespace talos
