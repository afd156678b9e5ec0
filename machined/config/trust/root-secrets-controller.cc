#include "machined/config/trust/root-secrets-controller.h"

#include <algorithm>

#include "common/base/fill-list.h"
#include "common/config/config.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/trust/stored-names.h"
#include "machined/config/trust/trust-config.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

// Returns the texts sorted, each once, so that the resource does not depend on the order of the
// inputs.
kj::Vector<kj::String> tidy(kj::Vector<kj::String> texts) {
  std::sort(texts.begin(), texts.end());
  kj::Vector<kj::String> result;
  for (auto& text : texts) {
    if (text.size() > 0 && (result.empty() || result.back() != text)) result.add(kj::mv(text));
  }
  return result;
}

void addAll(kj::Vector<kj::String>& to, kj::ArrayPtr<const kj::String> texts) {
  for (auto& text : texts) to.add(kj::str(text));
}

// Returns the names and addresses of the control plane in the config.
kj::Vector<kj::String> controlPlaneHosts(config::Config::Reader config) {
  auto cluster = config.getCluster();
  kj::Vector<kj::String> hosts;
  auto endpoint = config::parseEndpoint(cluster.getControlPlane().getEndpoint());
  if (endpoint.problem.size() == 0) hosts.add(kj::str(endpoint.value.host));
  for (auto san : cluster.getApiServer().getCertSANs()) hosts.add(kj::str(san));
  for (auto host : cluster.getTrustd().getEndpoints()) hosts.add(kj::str(host));
  // A node with a certificate for the Service's address could pose as an API server to pods.
  for (auto& address : config::apiServiceAddresses(cluster)) hosts.add(kj::mv(address));
  return hosts;
}

using Hosts = kj::Maybe<kj::ArrayPtr<const kj::String>>;

// Returns the names and addresses known to this node for which no other machine may get a
// certificate.
kj::Vector<kj::String> reserved(Store& store, config::Config::Reader config, const Hosts& nodes) {
  kj::Vector<kj::String> hosts;
  for (auto spec : store.list<rpc::HostnameSpecSpec>()) {
    auto name = spec.getHostname();
    if (name.size() == 0) continue;
    hosts.add(kj::str(name));
    if (spec.getDomainname().size() > 0) hosts.add(kj::str(name, ".", spec.getDomainname()));
  }
  addAll(hosts, storedAddresses(store));
  addAll(hosts, apiCertSans(config));
  addAll(hosts, controlPlaneHosts(config));
  KJ_IF_MAYBE (known, nodes) addAll(hosts, *known);
  return tidy(kj::mv(hosts));
}

bool hasControlPlaneOfKubernetes(config::Config::Reader config) {
  return config::isControlPlane(config.getMachine().getType()) &&
         config.getCluster().getCa().getKey().size() > 0;
}

void copyPair(rpc::KeyPair::Builder to, config::CertificateAndKey::Reader from) {
  to.setCrt(from.getCrt());
  to.setKey(from.getKey());
}

// Returns the names of the API server on any node.
kj::Vector<kj::String> apiServerNames(config::Config::Reader config) {
  auto cluster = config.getCluster();
  kj::Vector<kj::String> sans;
  auto endpoint = config::parseEndpoint(config::clusterEndpoint(cluster));
  if (endpoint.problem.size() == 0) sans.add(kj::str(endpoint.value.host));
  for (auto san : cluster.getApiServer().getCertSANs()) sans.add(kj::str(san));
  auto domain = config::dnsDomain(cluster);
  for (auto name : {"kubernetes"_kj, "kubernetes.default"_kj, "kubernetes.default.svc"_kj}) {
    sans.add(kj::str(name));
  }
  sans.add(kj::str("kubernetes.default.svc.", domain));
  for (auto& address : sharedAddresses(config)) sans.add(kj::mv(address));
  return tidy(kj::mv(sans));
}

void fillMachine(rpc::RootSecretSpec::OsRoot::Builder os, Store& store,
                 config::Config::Reader config, const Hosts& nodes) {
  auto machine = config.getMachine();
  auto cluster = config.getCluster();
  copyPair(os.initCa(), machine.getCa());
  os.setToken(machine.getToken());
  auto hosts = reserved(store, config, nodes);
  fillTexts(os.initReserved(hosts.size()), hosts);
  os.setControlPlaneKnown(nodes != nullptr);
  os.setDnsDomain(config::dnsDomain(cluster));
  os.setCertLifetimeS(apiCertLifetime(config) / kj::SECONDS);
  os.setAnyAddress(cluster.getTrustd().getAnyAddress());
  auto sans = tidy(apiCertSans(config));
  fillTexts(os.initCertSANs(sans.size()), sans);
}

void fillKubernetes(rpc::RootSecretSpec::KubernetesRoot::Builder root,
                    config::Config::Reader config) {
  auto cluster = config.getCluster();
  root.setName(config::clusterName(cluster));
  root.setEndpoint(config::clusterEndpoint(cluster));
  auto sans = apiServerNames(config);
  fillTexts(root.initCertSANs(sans.size()), sans);
  auto addresses = config::apiServiceAddresses(cluster);
  fillTexts(root.initApiServerIPs(addresses.size()), addresses);
  root.setDnsDomain(config::dnsDomain(cluster));
  copyPair(root.initCa(), cluster.getCa());
  root.setAcceptedCAs(acceptedCas(cluster.getAcceptedCAs()).asBytes());
  root.setServiceAccountKey(cluster.getServiceAccount().getKey());
  root.setAcceptedServiceAccountKeys(
      acceptedKeys(cluster.getAcceptedServiceAccountKeys()).asBytes());
  copyPair(root.initAggregatorCA(), cluster.getAggregatorCA());
  root.setAcceptedAggregatorCAs(acceptedCas(cluster.getAcceptedAggregatorCAs()).asBytes());
  root.setAesCBCEncryptionSecret(cluster.getAescbcEncryptionSecret());
  root.setSecretboxEncryptionSecret(cluster.getSecretboxEncryptionSecret());
  root.setAcceptedEncryptionSecrets(cluster.getAcceptedEncryptionSecrets());
  auto token = cluster.getToken();
  KJ_IF_MAYBE (dot, token.findFirst('.')) {
    root.setBootstrapTokenID(kj::heapString(token.slice(0, *dot)));
    root.setBootstrapTokenSecret(token.slice(*dot + 1));
  }
}

}  // namespace

bool signsForOthers(config::Config::Reader config) {
  auto machine = config.getMachine();
  return config::isControlPlane(machine.getType()) && hasKey(machine.getCa()) &&
         machine.getToken().size() > 0;
}

kj::Array<Controller::Input> RootController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::NodeAddressSpec>(),
                 input<rpc::PlatformConfigSpec>(), input<rpc::HostnameSpecSpec>(),
                 input<rpc::MemberSpec>(), input<rpc::EtcdMemberSpec>(),
                 input<rpc::MountStatusSpec>());
}
kj::Array<kj::StringPtr> RootController::outputs() const {
  return typeNames<rpc::RootSecretSpec>();
}

kj::Promise<void> RootController::reconcile(Store& store) {
  Hosts others;
  KJ_IF_MAYBE (config, readConfig(store)) {
    if (signsForOthers(*config)) others = co_await nodes.get(store);
  }
  Outputs<rpc::RootSecretSpec> outputs(name());
  KJ_IF_MAYBE (config, readConfig(store)) {
    if (signsForOthers(*config)) fillMachine(outputs.add("os").initOs(), store, *config, others);
    if (hasControlPlaneOfKubernetes(*config)) {
      fillKubernetes(outputs.add("k8s").initK8s(), *config);
    }
  }
  outputs.apply(store);
}

kj::Own<Controller> rootController(ControllerDependencies& deps) {
  return kj::heap<RootController>(
      KJ_BIND_METHOD(deps.config, tryConfig),
      ControlPlaneNodes::Dependencies{.uv = deps.uv,
                                      .isMounted = [&deps] { return deps.isStateMounted(); }});
}

}  // namespace talos::machined
