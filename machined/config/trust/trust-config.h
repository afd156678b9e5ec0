// Reads of the machine config the authorities, the names and the lifetimes of certificates, and the
// hosts of trustd. Pure.
#pragma once

#include <kj/time.h>
#include <kj/vector.h>

#include "common/tls/authorities.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

bool hasKey(config::CertificateAndKey::Reader authority);               // and the certificate
kj::Vector<kj::String> sharedAddresses(config::Config::Reader config);  // VIPs
// Returns machine.certSANs, the shared addresses, on a control-plane node also the name in the
// endpoint, and the Service through which pods reach the API if the config permits it: a client may
// reach this machine by any of these.
kj::Vector<kj::String> apiCertSans(config::Config::Reader config);
kj::Duration apiCertLifetime(config::Config::Reader config);  // for all certificates of the API
// Returns machine.ca and machine.acceptedCAs.
pki::Authorities apiAuthorities(config::Config::Reader config);
pki::Authorities kubernetesAuthorities(config::Config::Reader config);  // the same CAs of cluster
kj::String acceptedCas(capnp::List<config::AcceptedCa>::Reader list);   // PEM
kj::String acceptedKeys(capnp::List<config::AcceptedKey>::Reader list);
// Returns the hosts where trustd is reached: the host of the Kubernetes API, then
// cluster.trustd.endpoints.
kj::Vector<kj::String> trustdEndpoints(config::Config::Reader config);

}  // namespace talos::machined
