// Decides whether the certificates of the API must be renewed. Pure.
#pragma once

#include "common/tls/node-certificate.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

// Returns the reason to renew the stored certificates; nullptr if they stay.
kj::Maybe<kj::StringPtr> whyIssue(rpc::ApiCertificateSpec::Reader stored,
                                  const pki::Authorities& authorities, const NodeNames& names,
                                  kj::Duration lifetime, kj::Date now);

// Returns the time when half of the lifetime of these certificates has passed.
kj::Date halfLife(rpc::ApiCertificateSpec::Reader stored);

// Returns true if the temporary certificate of maintenance mode need not be renewed.
bool isGoodForMaintenance(rpc::ApiCertificateSpec::Reader stored, const NodeNames& names,
                          kj::Date now);
kj::Date maintenanceHalfLife(rpc::ApiCertificateSpec::Reader stored);

}  // namespace talos::machined
