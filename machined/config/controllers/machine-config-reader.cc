#include "machined/config/controllers/machine-config-reader.h"

#include "common/base/error.h"
#include "common/config/cluster-networks.h"
#include "common/config/config.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"
#include "common/text/texts.h"
#include "common/tls/node-certificate.h"
#include "common/wire/roles.h"

namespace talos::machined {

rpc::MachineType machineTypeOf(config::Config::Reader config) {
  switch (config.getMachine().getType()) {
    case config::MachineType::INIT:
      return rpc::MachineType::INIT;
    case config::MachineType::CONTROLPLANE:
      return rpc::MachineType::CONTROLPLANE;
    case config::MachineType::WORKER:
      return rpc::MachineType::JOIN;
  }
  return rpc::MachineType::UNKNOWN;
}

bool hasKey(config::CertificateAndKey::Reader authority) {
  return authority.getCrt().size() > 0 && authority.getKey().size() > 0;
}

kj::Vector<kj::String> sharedAddresses(config::Config::Reader config) {
  kj::Vector<kj::String> result;
  auto add = [&](config::Vip::Reader shared) {
    if (shared.getIp().size() > 0) result.add(kj::str(shared.getIp()));
  };
  for (auto interface : config.getMachine().getNetwork().getInterfaces()) {
    add(interface.getVip());
    for (auto vlan : interface.getVlans()) add(vlan.getVip());
  }
  return result;
}

kj::StringPtr roleName(config::ApiRole role) {
  switch (role) {
    case config::ApiRole::ADMIN:
      return kRoleAdmin;
    case config::ApiRole::OPERATOR:
      return kRoleOperator;
    case config::ApiRole::READER:
      return kRoleReader;
    case config::ApiRole::ETCD_BACKUP:
      return kRoleEtcdBackup;
  }
  return ""_kj;  // a role of a later release
}

kj::Vector<kj::String> apiCertSans(config::Config::Reader config) {
  kj::Vector<kj::String> result;
  for (auto san : config.getMachine().getCertSANs()) result.add(kj::str(san));
  for (auto& address : sharedAddresses(config)) result.add(kj::mv(address));
  // Clients reach any control-plane node by the endpoint's name. An address belongs to a single
  // node, or to a load balancer, which machine.certSANs names.
  auto endpoint = config::parseEndpoint(config.getCluster().getControlPlane().getEndpoint());
  bool named = endpoint.problem.size() == 0 && Ip::parse(endpoint.value.host) == nullptr;
  if (named && config::isControlPlane(config.getMachine().getType())) {
    result.add(kj::str(endpoint.value.host));
  }
  if (config.getMachine().getFeatures().getKubernetesTalosAPIAccess().getEnabled()) {
    for (auto name : {"talos"_kj, "talos.default"_kj, "talos.default.svc"_kj}) {
      result.add(kj::str(name));
    }
    result.add(kj::str("talos.default.svc.", config::dnsDomain(config.getCluster())));
  }
  return result;
}

kj::Duration apiCertLifetime(config::Config::Reader config) {
  return config::parseDuration(config.getCluster().getTrustd().getCertLifetime())
      .orDefault(kDefaultLifetime);
}

kj::String acceptedCas(capnp::List<config::AcceptedCa>::Reader list) {
  auto texts = KJ_MAP(one, list) {
    return kj::str(one.getCrt().asChars());
  };
  return kj::strArray(texts, "\n");
}

kj::String acceptedKeys(capnp::List<config::AcceptedKey>::Reader list) {
  auto texts = KJ_MAP(one, list) {
    return kj::str(one.getKey().asChars());
  };
  return kj::strArray(texts, "\n");
}

pki::Authorities apiAuthorities(config::Config::Reader config) {
  auto machine = config.getMachine();
  return pki::authoritiesOf(kj::str(machine.getCa().getCrt().asChars()),
                            acceptedCas(machine.getAcceptedCAs()));
}

pki::Authorities kubernetesAuthorities(config::Config::Reader config) {
  auto cluster = config.getCluster();
  return pki::authoritiesOf(kj::str(cluster.getCa().getCrt().asChars()),
                            acceptedCas(cluster.getAcceptedCAs()));
}

kj::Vector<kj::String> trustdEndpoints(config::Config::Reader config) {
  auto cluster = config.getCluster();
  kj::Vector<kj::String> result;
  auto url = cluster.getControlPlane().getEndpoint();
  auto add = [&](kj::StringPtr host) {
    if (host.size() > 0) addOnce(result, kj::str(host));
  };
  if (url.size() > 0) add(config::parseEndpoint(url).value.host);
  for (auto endpoint : cluster.getTrustd().getEndpoints()) add(endpoint);
  return result;
}

void MachineConfigReader::know(KnownConfig document) {
  next = kj::mv(document);
}

bool MachineConfigReader::is(const kj::Maybe<KnownConfig>& known, kj::ArrayPtr<const char> text) {
  KJ_IF_MAYBE (k, known) return k->bytes() == text;
  return false;
}

kj::Maybe<const KnownConfig&> MachineConfigReader::document(Store& store) {
  KJ_IF_MAYBE (stored, store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId)) {
    auto text = stored->getDocument().asArray();
    if (is(next, text)) {
      current = kj::mv(next);
      next = nullptr;
    }
    if (is(current, text)) return KJ_ASSERT_NONNULL(current);
  }
  return nullptr;
}

kj::Maybe<config::Config::Reader> MachineConfigReader::tryConfig(Store& store) {
  KJ_IF_MAYBE (config, document(store)) return config->get();
  return nullptr;
}

kj::Maybe<config::Machine::Reader> MachineConfigReader::tryMachine(Store& store) {
  return tryConfig(store).map([](config::Config::Reader config) { return config.getMachine(); });
}

config::Machine::Reader MachineConfigReader::machine(Store& store) {
  KJ_IF_MAYBE (machine, tryMachine(store)) return *machine;
  fail(ErrorKind::kNotFound, "no machine config");
}

}  // namespace talos::machined
