// Reads the machine config of the resource config/MachineConfigs/v1alpha1.
#pragma once

#include <kj/function.h>

#include "common/tls/authorities.h"
#include "machined/confined/parser-client/known-config.h"
#include "machined/resources/store.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kMachineConfigId = "v1alpha1"_kj;

// None while there is no valid config. The reader is valid until the event loop runs again.
using ReadConfig = kj::Function<kj::Maybe<config::Config::Reader>(Store&)>;

rpc::MachineType machineTypeOf(config::Config::Reader config);
bool hasKey(config::CertificateAndKey::Reader authority);               // and the certificate
kj::Vector<kj::String> sharedAddresses(config::Config::Reader config);  // VIPs
// machine.certSANs, the shared addresses, of a control plane the name in the endpoint, and the
// Service by which pods reach the API, if they may: a client of one of these may reach this
// machine.
kj::Vector<kj::String> apiCertSans(config::Config::Reader config);
kj::StringPtr roleName(config::ApiRole role);                 // os:admin; empty: of a later release
kj::Duration apiCertLifetime(config::Config::Reader config);  // of all certificates of machine APIs
// machine.ca and machine.acceptedCAs.
pki::Authorities apiAuthorities(config::Config::Reader config);
pki::Authorities kubernetesAuthorities(config::Config::Reader config);  // the same of cluster
kj::String acceptedCas(capnp::List<config::AcceptedCa>::Reader list);   // PEM
kj::String acceptedKeys(capnp::List<config::AcceptedKey>::Reader list);
// The hosts that trustd is asked at: the host of the Kubernetes API, then cluster.trustd.endpoints.
kj::Vector<kj::String> trustdEndpoints(config::Config::Reader config);

// The brain does not parse documents: whoever publishes one has had it read
// (machined/confined/parser-client/foreign-bytes.h) and calls know() before; a restarted brain does
// that for the published document, before anything reads it. The readable form is kept here and not
// in the resource: a second copy of every secret would be in the store and its journal, and go to
// everybody who reads the resource.
class MachineConfigReader {
 public:
  // The document that is published, or will be next.
  void know(KnownConfig document);
  // None when no config is published. Valid until the next know().
  kj::Maybe<const KnownConfig&> document(Store& store);
  // The same, without the bytes.
  kj::Maybe<config::Config::Reader> tryConfig(Store& store);
  kj::Maybe<config::Machine::Reader> tryMachine(Store& store);
  config::Machine::Reader machine(Store& store);  // NotFound

 private:
  // Of the resource; and the one that is about to be published.
  kj::Maybe<KnownConfig> current, next;

  static bool is(const kj::Maybe<KnownConfig>& known, kj::ArrayPtr<const char> text);
};

}  // namespace talos::machined
