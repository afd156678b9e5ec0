// Certificates for clients of the machine API, signed with the authority of the config.
//
// Pure. The key stays with who asks: what comes here is a request, whose signature shows that its
// sender has the key. Of the request only the common name is taken over, and none if the caller
// names the client; roles and lifetime are those that the caller names. The certificate is good for
// a client and for nothing else.
#pragma once

#include "common/tls/pki.h"

namespace talos::machined {

constexpr uint64_t kShortestLifetimeS = 60, kLongestLifetimeS = 87600ull * 3600;

// InvalidArgument when the request cannot be used, a role is none that a client can be given, or
// the lifetime is out of bounds. Ends with the authority's own life at the latest.
kj::String signClientCertificate(kj::StringPtr authorityCertificate, kj::StringPtr authorityKey,
                                 kj::ArrayPtr<const char> request,
                                 kj::ArrayPtr<const kj::String> roles, uint64_t lifetimeS,
                                 kj::Date now, kj::StringPtr name = "");

}  // namespace talos::machined
