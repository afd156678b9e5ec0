// What the controllers here read from the machine config, taken out of its document.
#pragma once

#include "common/config/config.h"
#include "common/tls/node-certificate.h"
#include "machined/controllers/network-config-plan.h"
#include "machined/resources/store.h"
#include "rpc/types.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kMachineConfigId = "v1alpha1"_kj;

// What machines that ask for a certificate are answered with.
struct TrustConfig {
  pki::Pem token;                // machine.token
  kj::Vector<kj::String> hosts;  // names and addresses of the control plane
  kj::String dnsDomain;
  kj::Duration certLifetime = kDefaultLifetime;  // of all certificates of machine APIs
  bool anyAddress = false;
};

struct MachineConfigView {
  rpc::MachineType type = rpc::MachineType::UNKNOWN;
  kj::String authority;  // machine.ca, PEM; empty when the config has none
  pki::Pem authorityKey;
  kj::String authorityHash;  // machine.caHash
  kj::Vector<kj::String> certSans;
  TrustConfig trust;
  // Where trustd is asked: the host of the Kubernetes API, then those of cluster.trustd, each once.
  kj::Vector<kj::String> trustdEndpoints;
  NetworkConfig network;
  bool timeDisabled = false;
  kj::Vector<kj::String> timeServers;  // as the config has them
};

// Of a document; InvalidArgument with its problems when it cannot be read.
MachineConfigView viewMachineConfig(kj::StringPtr document);
MachineConfigView viewOf(const config::MachineConfig& config);

// Of the resource config/MachineConfigs/v1alpha1; none when there is none yet.
kj::Maybe<MachineConfigView> storedMachineConfig(Store& store);

// The same for several readers: a document is parsed once for each version of the resource.
class MachineConfigReader {
 public:
  // Of the document that will be published next: the same bytes need not be parsed again.
  void know(config::MachineConfig document);
  kj::Maybe<MachineConfigView> view(Store& store);
  // Valid until the next call.
  kj::Maybe<const config::MachineConfig&> document(Store& store);
  // Its key `machine`, as long valid: none while there is no config that can be used.
  kj::Maybe<config::Machine::Reader> tryMachine(Store& store);
  config::Machine::Reader machine(Store& store);  // NotFound

 private:
  uint64_t version = 0, updated = 0;
  kj::Maybe<config::MachineConfig> parsed;

  bool isParsed(kj::ArrayPtr<const char> text) const;
};

}  // namespace talos::machined
