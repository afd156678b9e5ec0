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

// Nobody's word but that of `accept` decides about the server's certificate, in place of
// authorities, names and validity: it sees the leaf as PEM and says whether to go on. A refusal
// ends the handshake with an alert. For a context that one client connection uses and that nothing
// else ever does; `accept` lives longer than it. Only tls-unverified.cc may call this.
void acceptOnlyBy(kj::TlsContext& context, kj::Function<bool(kj::StringPtr leaf)>& accept);

}  // namespace talos
