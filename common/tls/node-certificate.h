// Server certificate of a node: its names and its validity. machined applies these rules to the
// certificate of port 50000, trustd to the certificate of its own port. Pure.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

#include "common/tls/pki.h"

namespace talos {

// Returns a DNS name as certificates have it: lower case, without a dot at the end.
kj::String canonicalName(kj::StringPtr name);

// Names of a node, sorted, without repetitions; names and addresses in canonical text.
struct NodeNames {
  kj::String commonName;
  kj::Vector<kj::String> dns, addresses;
};

// Collects the node's own addresses (with or without a prefix length), its host name with and
// without domain, machine.certSANs (names or addresses; other texts are left out), and the names of
// the node for itself: localhost, 127.0.0.1 and ::1.
NodeNames nodeNames(kj::StringPtr hostname, kj::StringPtr domain,
                    kj::ArrayPtr<const kj::String> nodeAddresses,
                    kj::ArrayPtr<const kj::String> certSans);

// Returns true if the certificate is a control-plane node's, provided that its CA has signed it: it
// names 127.0.0.1, which nodeNames() adds for each of them, in every release. The name cannot be
// forged: the signer writes the certificate, and trustd signs no loopback address, whatever a
// request has (trustd/signing-policy.h); so only a holder of the CA's key makes such a certificate.
bool isOfControlPlane(const pki::CertificateInfo& certificate);

// A certificate is valid from this long before its issue, for peers whose clock is slow. This time
// is not part of its lifetime.
constexpr auto kBackdated = 5 * kj::MINUTES;
constexpr auto kDefaultLifetime = 24 * kj::HOURS;
constexpr auto kShortestLifetime = 10 * kj::SECONDS;

// Returns names, usage as a server, and validity of a certificate issued now. Callers may change
// usage and subject.
pki::LeafOptions serverOptions(const NodeNames& names, kj::Duration lifetime, kj::Date now);

// Returns the time when half of the lifetime, counted from the issue, has passed.
kj::Date halfLife(const pki::CertificateInfo& info);
// Returns the cause for which this certificate has to be renewed; nullptr while it can stay in use.
kj::Maybe<kj::StringPtr> renewalCause(const pki::CertificateInfo& info, const NodeNames& names,
                                      kj::Duration lifetime, kj::Date now);
// Does the same, for lifetime and clock alone.
kj::Maybe<kj::StringPtr> renewalCause(const pki::CertificateInfo& info, kj::Duration lifetime,
                                      kj::Date now);

}  // namespace talos
