// The CAs that vouch for one kind of peers, while one of them is replaced by another.
//
// Peers keep certificates of the old CA and get new ones one after the other, so for a while both
// are accepted. A peer that trusts only one of the two verifies certificates of the other through
// the CA as its own one signed it: a certificate for the same key, sent behind the peer's own.
// Pure; texts are PEM.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::pki {

// Each block of a text with this label ("CERTIFICATE"), by its markers alone: what is between them
// is not parsed.
kj::Vector<kj::String> blocksIn(kj::StringPtr pem, kj::StringPtr label);
kj::Vector<kj::String> certificatesIn(kj::StringPtr pem);

struct Authorities {
  kj::String trusted;  // the CA first, then those that are accepted beside it
  kj::String behind;   // the CA's own key as others signed it; empty if nobody did
};
// `ca`: one certificate, or none; `accepted`: any number. A certificate of `accepted` for the key
// of `ca` is not a CA beside it: it goes behind what the CA signs. InvalidArgument for what does
// not parse.
Authorities authoritiesOf(kj::StringPtr ca, kj::StringPtr accepted);

// The chain that a peer sends: the first certificate of the text, then `behind` of its CA.
kj::String chainOf(kj::StringPtr certificate, kj::StringPtr behind);

// True if one of the certificates of `authorities` signed the first one of `certificate`.
bool isSignedByAny(kj::StringPtr certificate, kj::StringPtr authorities);

}  // namespace talos::pki
