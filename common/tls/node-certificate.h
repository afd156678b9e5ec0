// The server certificate of a node: its names and its validity. machined applies these rules to the
// certificate of port 50000, trustd to that of its own port. Pure.
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

// True if the certificate is that of a control-plane node, given that its CA has signed it: it
// names 127.0.0.1, as nodeNames() has it for each of them and had it in every release. It cannot be
// forged: the signer writes the certificate, and trustd signs no loopback address,
// whatever a request has (trustd/signing-policy.h); so only a holder of the CA's key makes one.
bool isOfControlPlane(const pki::CertificateInfo& certificate);

// A certificate is valid from this long before its issue, for peers whose clock is behind. This is
// not part of its lifetime.
constexpr auto kBackdated = 5 * kj::MINUTES;
constexpr auto kDefaultLifetime = 24 * kj::HOURS;
constexpr auto kShortestLifetime = 10 * kj::SECONDS;

// Names, usage as a server, and validity of a certificate issued now. Callers may change usage and
// subject.
pki::LeafOptions serverOptions(const NodeNames& names, kj::Duration lifetime, kj::Date now);

// The time when half of the lifetime, counted from the issue, has passed.
kj::Date halfLife(const pki::CertificateInfo& info);
// The cause for which this certificate has to be renewed; none while it can stay in use.
kj::Maybe<kj::StringPtr> renewalCause(const pki::CertificateInfo& info, const NodeNames& names,
                                      kj::Duration lifetime, kj::Date now);
// The same, for lifetime and clock alone.
kj::Maybe<kj::StringPtr> renewalCause(const pki::CertificateInfo& info, kj::Duration lifetime,
                                      kj::Date now);

}  // namespace talos
