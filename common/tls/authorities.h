// CAs of one kind of peers, while one CA is replaced by another.
//
// Peers keep certificates of the old CA and get new ones one after the other, so for a while both
// CAs are accepted. A peer that trusts only one of the two verifies certificates of the other
// through a cross-signed CA: a certificate for the other CA's key, signed by the trusted CA and
// sent after the peer's own. Pure; texts are PEM.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::pki {

// Returns each block of a text with this label ("CERTIFICATE"), found by its markers alone: the
// content is not parsed.
kj::Vector<kj::String> blocksIn(kj::StringPtr pem, kj::StringPtr label);
kj::Vector<kj::String> certificatesIn(kj::StringPtr pem);

struct Authorities {
  kj::String trusted;  // the CA first, then the further accepted CAs
  kj::String behind;   // the CA's own key as other CAs signed it; may be empty
};
// `ca`: one certificate, or empty; `accepted`: any number. A certificate of `accepted` for the key
// of `ca` is not a further CA: it is sent after the certificates that the CA signs. Throws
// InvalidArgument for text that does not parse.
Authorities authoritiesOf(kj::StringPtr ca, kj::StringPtr accepted);

// Returns the chain that a peer sends: the first certificate of the text, then `behind` of its CA.
kj::String chainOf(kj::StringPtr certificate, kj::StringPtr behind);

// Returns true if one of the certificates of `authorities` signed the first one of `certificate`.
bool isSignedByAny(kj::StringPtr certificate, kj::StringPtr authorities);

}  // namespace talos::pki
