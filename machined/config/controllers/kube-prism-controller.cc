// k8s.KubePrismController: publishes, while machine.features.kubePrism is enabled, the API servers
// that the node knows, KubePrismEndpoints[k8s-cluster], and for kubed the settings of the balancer,
// KubePrismConfigs[k8s-loadbalancer-config].
//
// The servers: the endpoint in the config first; on a control-plane node its own API server; those
// of other nodes as Kubernetes has them (Endpoints[kube-apiserver]), which a node knows once it has
// reached an API server. An endpoint that is the balancer is left out. While a restarted brain does
// not know the config, the records of its predecessor stay.
#include "common/config/config.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/net/ip.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr uint16_t kHttpsPort = 443;  // of an endpoint without a port

struct KnownServer {
  kj::String host;
  uint16_t port;
  bool operator==(const KnownServer& other) const {
    return host == other.host && port == other.port;
  }
};

// Returns true for the balancer itself, which would forward each connection to itself until it has
// the most that it may have.
bool isBalancer(kj::StringPtr host, uint16_t port, config::Config::Reader config) {
  if (port != config.getMachine().getFeatures().getKubePrism().getPort()) return false;
  KJ_IF_MAYBE (address, Ip::parse(host)) return address->isLoopback();
  return host == "localhost";
}

kj::Vector<KnownServer> knownServers(Store& store, config::Config::Reader config) {
  kj::Vector<KnownServer> servers;
  auto add = [&](kj::StringPtr host, uint16_t port) {
    if (isBalancer(host, port, config)) return;
    KnownServer server{kj::str(host), port};
    for (auto& known : servers) {
      if (known == server) return;
    }
    servers.add(kj::mv(server));
  };
  auto cluster = config.getCluster();
  auto endpoint = config::parseEndpoint(config::clusterEndpoint(cluster));
  if (endpoint.problem.size() == 0) {
    add(endpoint.value.host, endpoint.value.port.orDefault(kHttpsPort));
  }
  auto local = config::localApiServerPort(cluster);
  if (config::isControlPlane(config.getMachine().getType())) add(config::kBalancerHost, local);
  for (auto others : store.list<rpc::ApiEndpointsSpec>()) {
    auto port = others.getPort() == 0 ? local : static_cast<uint16_t>(others.getPort());
    for (auto address : others.getAddresses()) add(address, port);
  }
  return servers;
}

void fillServers(capnp::List<rpc::KubePrismEndpoint>::Builder out,
                 kj::ArrayPtr<const KnownServer> servers) {
  for (auto i : kj::indices(servers)) {
    out[i].setHost(servers[i].host);
    out[i].setPort(servers[i].port);
  }
}

class KubePrismController final : public Controller {
 public:
  explicit KubePrismController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "k8s.KubePrismController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::ApiEndpointsSpec>());
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::KubePrismEndpointsSpec, rpc::KubePrismConfigSpec>();
  }

  kj::Promise<void> reconcile(Store& store) override {
    KJ_IF_MAYBE (c, config.tryConfig(store)) {
      auto servers = knownServers(store, *c);
      auto count = static_cast<unsigned>(servers.size());
      Outputs<rpc::KubePrismEndpointsSpec> endpoints(name());
      Outputs<rpc::KubePrismConfigSpec> settings(name());
      if (config::hasBalancer(*c)) {
        auto known = endpoints.add("k8s-cluster");
        auto hosts = known.initHosts(count);
        for (auto i : kj::indices(servers)) hosts.set(i, servers[i].host);
        fillServers(known.initEndpoints(count), servers);
        auto spec = settings.add("k8s-loadbalancer-config");
        spec.setHost(config::kBalancerHost);
        spec.setPort(c->getMachine().getFeatures().getKubePrism().getPort());
        fillServers(spec.initEndpoints(count), servers);
      }
      endpoints.apply(store);
      settings.apply(store);
    }
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> kubePrismController(ControllerDependencies& deps) {
  return kj::heap<KubePrismController>(deps.config);
}

}  // namespace talos::machined
