// The server certificate of a machine: which names it carries, and how long it is good for. What
// machined makes for port 50000 and trustd for its own port follows the same rules. Pure.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

#include "common/tls/pki.h"

namespace talos {

// A DNS name as certificates have it: lower case, without a dot at the end.
kj::String canonicalName(kj::StringPtr name);

// Sorted, without repetitions; names and addresses in canonical text.
struct NodeNames {
  kj::String commonName;
  kj::Vector<kj::String> dns, addresses;
};

// The node's own addresses (with a prefix length or without), host name with and without domain,
// machine.certSANs (names or addresses; what is neither is left out), and what reaches it from
// itself: localhost, 127.0.0.1 and ::1.
NodeNames nodeNames(kj::StringPtr hostname, kj::StringPtr domain,
                    kj::ArrayPtr<const kj::String> nodeAddresses,
                    kj::ArrayPtr<const kj::String> certSans);

// So long before it is made a certificate begins, for peers whose clock is behind. It is no part of
// its lifetime.
constexpr auto kBackdated = 5 * kj::MINUTES;
constexpr auto kDefaultLifetime = 24 * kj::HOURS;
constexpr auto kShortestLifetime = 10 * kj::SECONDS;

// Names, usage as a server, and validity of a certificate made now. Usage and subject may be
// changed.
pki::LeafOptions serverOptions(const NodeNames& names, kj::Duration lifetime, kj::Date now);

// When half of the lifetime is over that began when the certificate was made.
kj::Date halfLife(const pki::CertificateInfo& info);
// Why such a certificate cannot stay; none when it can.
kj::Maybe<kj::StringPtr> whyRenew(const pki::CertificateInfo& info, const NodeNames& names,
                                  kj::Duration lifetime, kj::Date now);
// The part of that which is about time alone.
kj::Maybe<kj::StringPtr> whyRenew(const pki::CertificateInfo& info, kj::Duration lifetime,
                                  kj::Date now);

}  // namespace talos
