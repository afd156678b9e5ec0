// Certificates for clients of the machine API, signed with the authority of the config.
//
// Pure. The client keeps its key: it sends a request, whose signature shows that the sender has the
// key. Only the common name is taken from the request, and not even that if the caller names the
// client; the caller sets the roles and the lifetime. The certificate is good for a client and for
// nothing else.
#pragma once

#include "common/tls/pki.h"

namespace talos::machined {

constexpr uint64_t kShortestLifetimeS = 60, kLongestLifetimeS = 87600ull * 3600;

// Throws InvalidArgument if the request cannot be used, a role is not one that a client can get, or
// the lifetime is out of bounds. The certificate expires with the authority at the latest.
kj::String signClientCertificate(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                                 kj::ArrayPtr<const char> request,
                                 kj::ArrayPtr<const kj::String> roles, uint64_t lifetimeS,
                                 kj::Date now, kj::StringPtr name = "");

}  // namespace talos::machined
