// Whether the certificates of the API are still the right ones. Pure.
#pragma once

#include "common/tls/node-certificate.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

// Why the stored certificates cannot stay; none when they can.
kj::Maybe<kj::StringPtr> whyIssue(rpc::ApiCertificateSpec::Reader stored, kj::StringPtr authority,
                                  const NodeNames& names, kj::Duration lifetime, kj::Date now);

// When half of the life of these certificates is over.
kj::Date halfLife(rpc::ApiCertificateSpec::Reader stored);

// The same for the throw-away certificate of maintenance mode.
bool isGoodForMaintenance(rpc::ApiCertificateSpec::Reader stored, const NodeNames& names,
                          kj::Date now);
kj::Date maintenanceHalfLife(rpc::ApiCertificateSpec::Reader stored);

}  // namespace talos::machined
