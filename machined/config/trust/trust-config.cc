#include "machined/config/trust/trust-config.h"

#include "common/config/config.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"
#include "common/text/texts.h"
#include "common/tls/node-certificate.h"

namespace talos::machined {

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

}  // namespace talos::machined
