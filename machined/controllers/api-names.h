// The names that the certificate of port 50000 carries, and whether a certificate is still the
// right one. Pure.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

#include "rpc/types.capnp.h"

namespace talos::machined {

// Sorted, without repetitions; addresses in canonical text.
struct ApiNames {
  kj::String commonName;
  kj::Vector<kj::String> dns, addresses;
};

// The node's own addresses, host name with and without domain, machine.certSANs (names or
// addresses; what is neither is left out), and what reaches it from itself: localhost, 127.0.0.1
// and ::1.
ApiNames apiNames(kj::StringPtr hostname, kj::StringPtr domain,
                  kj::ArrayPtr<const kj::String> nodeAddresses,
                  kj::ArrayPtr<const kj::String> certSans);

// Why the stored certificates cannot stay; none when they can.
kj::Maybe<kj::StringPtr> whyIssue(rpc::ApiCertificateSpec::Reader stored, kj::StringPtr authority,
                                  const ApiNames& names, kj::Date now);

// When half of the life of these certificates is over.
kj::Date halfLife(rpc::ApiCertificateSpec::Reader stored);

// The same for the throw-away certificate of maintenance mode.
bool isGoodForMaintenance(rpc::ApiCertificateSpec::Reader stored, const ApiNames& names,
                          kj::Date now);
kj::Date maintenanceHalfLife(rpc::ApiCertificateSpec::Reader stored);

}  // namespace talos::machined
