// Decides whether the certificates of the API must be renewed. Pure.
#pragma once

#include "common/tls/node-certificate.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

// The reason to renew the stored certificates; none: they stay.
kj::Maybe<kj::StringPtr> whyIssue(rpc::ApiCertificateSpec::Reader stored,
                                  const pki::Authorities& authorities, const NodeNames& names,
                                  kj::Duration lifetime, kj::Date now);

// When half of the lifetime of these certificates has passed.
kj::Date halfLife(rpc::ApiCertificateSpec::Reader stored);

// The same for the temporary certificate of maintenance mode.
bool isGoodForMaintenance(rpc::ApiCertificateSpec::Reader stored, const NodeNames& names,
                          kj::Date now);
kj::Date maintenanceHalfLife(rpc::ApiCertificateSpec::Reader stored);

}  // namespace talos::machined
