// What the controllers here read from the machine config, taken out of its document.
#pragma once

#include "common/tls/node-certificate.h"
#include "machined/config/network/network-config-plan.h"
#include "machined/confined/parser-client/known-config.h"
#include "machined/resources/store.h"
#include "rpc/machine-resources.capnp.h"

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

// cluster.etcd of the config.
struct EtcdView {
  kj::String authority;  // PEM; empty when the config has none
  pki::Pem authorityKey;
  kj::String image;
  struct Argument {
    kj::String key, value;
  };
  kj::Vector<Argument> extraArgs;
  kj::Vector<kj::String> advertisedSubnets, listenSubnets;
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
  EtcdView etcd;
  bool timeDisabled = false;
  kj::Vector<kj::String> timeServers;  // as the config has them
};

MachineConfigView viewOf(config::Config::Reader config);

// Of the resource config/MachineConfigs/v1alpha1, whose document nobody here parses: who publishes
// one has had it read (machined/confined/parser-client/foreign-bytes.h) and tells the view of it
// before, and a restarted brain does that again for the one that it finds, before anything asks.
// Kept here and not in the resource: a second copy of every secret would lie in the store and in
// its journal, and go to everybody who reads the resource.
class MachineConfigReader {
 public:
  // Of the document that will be published next, or that is published.
  void know(KnownConfig document);
  // None when there is none yet, and for a document that nobody has told of.
  kj::Maybe<MachineConfigView> view(Store& store);
  // Valid until the next know().
  kj::Maybe<const KnownConfig&> document(Store& store);
  // All of it, as long valid: none while there is no config that can be used.
  kj::Maybe<config::Config::Reader> tryConfig(Store& store);
  // Its key `machine`.
  kj::Maybe<config::Machine::Reader> tryMachine(Store& store);
  config::Machine::Reader machine(Store& store);  // NotFound

 private:
  // The one of the resource; and the one that is about to be.
  kj::Maybe<KnownConfig> current, next;

  static bool is(const kj::Maybe<KnownConfig>& known, kj::ArrayPtr<const char> text);
};

}  // namespace talos::machined
