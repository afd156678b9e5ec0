#include "machined/controllers/network-controller.h"

#include <kj/encoding.h>
#include <string.h>

#include <array>
#include <utility>

#include "common/base/log.h"
#include "common/base/zeroize.h"
#include "machined/resources/controller-outputs.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kLinkStatuses = "LinkStatuses.net.talos.dev"_kj;
constexpr kj::StringPtr kOperatorStatuses = "OperatorStatuses.net.talos.dev"_kj;
const Controller::Input kNetworkInputs[] = {
    {"", kMachineConfigs, kMachineConfigId}, {"", kLinkStatuses}, {"", kOperatorStatuses}};

kj::StringPtr familyOf(const Ip& address) {
  return address.family() == AF_INET ? "inet4"_kj : "inet6"_kj;
}

kj::StringPtr scopeOf(const Ip& address) {
  if (address.isLoopback()) return "host";
  if (address.isLinkLocal()) return "link";
  return "global";
}

kj::Vector<KnownLink> knownLinks(Store& store) {
  kj::Vector<KnownLink> links;
  for (auto resource : store.list("", kLinkStatuses)) {
    auto spec = resource.getSpec().getAs<rpc::LinkStatusSpec>();
    // A bond gives its members its own address.
    bool own = spec.getMemberKind() != "bond" || spec.getPermanentAddress().size() == 0;
    links.add(KnownLink{
        .index = spec.getIndex(),
        .name = kj::str(resource.getMetadata().getId()),
        .loopback = spec.getType() == "loopback",
        .hardware = spec.getType() == "ether" && spec.getKind().size() == 0,
        .made = spec.getLogical(),
        .hardwareAddress = kj::str(own ? spec.getHardwareAddress() : spec.getPermanentAddress()),
        .permanentAddress = kj::str(spec.getPermanentAddress()),
        .driver = kj::str(spec.getDriver()),
        .busPath = kj::str(spec.getBusPath()),
        .pciId = kj::str(spec.getPciID()),
    });
  }
  return links;
}

// What networkd told was checked when it was read from the network; what is unreadable here is left
// out all the same.
kj::Vector<Lease> knownLeases(Store& store) {
  kj::Vector<Lease> leases;
  for (auto resource : store.list("", kOperatorStatuses)) {
    auto spec = resource.getSpec().getAs<rpc::OperatorStatusSpec>();
    Lease lease;
    lease.kind = kj::str(spec.getOperator());
    lease.link = kj::str(spec.getLinkName());
    for (auto text : spec.getAddresses()) {
      KJ_IF_MAYBE (prefix, Prefix::parse(text)) lease.addresses.add(*prefix);
    }
    for (auto route : spec.getRoutes()) {
      KJ_IF_MAYBE (destination, Prefix::parse(route.getDestination())) {
        lease.routes.add(Lease::Route{destination->masked(), Ip::parse(route.getGateway())});
      }
    }
    lease.mtu = spec.getMtu();
    for (auto text : spec.getDnsServers()) {
      KJ_IF_MAYBE (ip, Ip::parse(text)) lease.resolvers.add(*ip);
    }
    for (auto text : spec.getSearchDomains()) lease.search.add(kj::str(text));
    for (auto text : spec.getTimeServers()) lease.timeServers.add(kj::str(text));
    lease.hostname = kj::str(spec.getHostname());
    lease.domain = kj::str(spec.getDomainname());
    leases.add(kj::mv(lease));
  }
  return leases;
}

void addKeys(Outputs& outputs, const NetworkPlan& plan) {
  for (auto& link : plan.links) {
    if (link.making.wireguard == nullptr) continue;
    KJ_IF_MAYBE (secret, link.making.wireguard->privateKey) {
      auto text = kj::encodeBase64(secret->bytes());
      KJ_DEFER(zeroize(text));
      outputs.add<rpc::WireguardKeySpec>(link.name).setPrivateKey(text);
    }
  }
}

void addLinks(Outputs& outputs, const NetworkPlan& plan) {
  for (auto& link : plan.links) {
    auto spec = outputs.add<rpc::LinkSpecSpec>(link.name);
    spec.setName(link.name);
    spec.setUp(true);
    spec.setMtu(link.mtu);
    spec.setLayer(link.layer);
    link.making.fill(spec);
  }
  for (auto& entry : plan.unresolved) {
    auto spec = outputs.add<rpc::LinkSpecSpec>(kj::str("deviceSelector:", entry.selector));
    spec.setLayer(kLayerConfiguration);
    spec.setProblem(entry.problem);
  }
}

void addAddresses(Outputs& outputs, const NetworkPlan& plan) {
  for (auto& address : plan.addresses) {
    auto spec = outputs.add<rpc::AddressSpecSpec>(kj::str(address.link, "/", address.prefix));
    spec.setAddress(address.prefix.toString());
    spec.setLinkName(address.link);
    spec.setFamily(familyOf(address.prefix.address));
    spec.setScope(scopeOf(address.prefix.address));
    spec.setLayer(address.layer);
    spec.setOrder(address.order);
  }
}

void addRoutes(Outputs& outputs, const NetworkPlan& plan) {
  for (auto& route : plan.routes) {
    auto family = familyOf(route.destination.address);
    auto gateway = kj::str(), destination = kj::str();
    KJ_IF_MAYBE (g, route.gateway) {
      gateway = g->toString();
    }
    if (route.destination.length > 0) destination = route.destination.toString();
    auto type = capnp::Schema::from<config::RouteType>().getEnumerants()[unsigned(route.type)];
    kj::StringPtr place = route.link.size() > 0 ? kj::StringPtr(route.link)
                                                : kj::StringPtr(type.getProto().getName());
    auto spec = outputs.add<rpc::RouteSpecSpec>(
        kj::str(place, "/", family, "/", gateway, "/", destination, "/", route.metric));
    spec.setFamily(family);
    spec.setDestination(destination);
    spec.setGateway(gateway);
    spec.setLinkName(route.link);
    spec.setMetric(route.metric);
    spec.setLayer(route.layer);
    KJ_IF_MAYBE (source, route.source) spec.setSource(source->toString());
    spec.setMtu(route.mtu);
    spec.setOnlink(route.onlink);
    spec.setType(route.type);
  }
}

void addHostname(Outputs& outputs, const NetworkPlan& plan) {
  if (plan.hostname.size() == 0) return;
  auto spec = outputs.add<rpc::HostnameSpecSpec>("hostname");
  spec.setHostname(plan.hostname);
  spec.setDomainname(plan.domain);
  spec.setLayer(plan.hostnameLayer);
}

void addResolvers(Outputs& outputs, const NetworkPlan& plan) {
  auto spec = outputs.add<rpc::ResolverSpecSpec>("resolvers");
  auto servers = spec.initDnsServers(plan.resolvers.size());
  for (auto i : kj::indices(plan.resolvers)) servers.set(i, plan.resolvers[i].toString());
  spec.setLayer(plan.resolversLayer);
  auto search = spec.initSearchDomains(plan.search.size());
  for (auto i : kj::indices(plan.search)) search.set(i, plan.search[i]);
}

void addOperators(Outputs& outputs, const NetworkPlan& plan) {
  // A name that was made up, or that DHCP gave, is not the machine's to tell.
  bool named = plan.hostnameLayer == kLayerConfiguration || plan.hostnameLayer == kLayerCmdline;
  for (auto& o : plan.operators) {
    auto spec = outputs.add<rpc::OperatorSpecSpec>(kj::str(o.kind, "/", o.link));
    spec.setOperator(o.kind);
    spec.setLinkName(o.link);
    spec.setRequireUp(true);
    spec.setRouteMetric(o.metric);
    if (named) spec.setHostname(plan.hostname);
    spec.setLayer(o.layer);
  }
}

void addTimeServers(Outputs& outputs, const NetworkPlan& plan) {
  auto spec = outputs.add<rpc::TimeServerSpecSpec>("timeservers");
  auto servers = spec.initTimeServers(plan.timeServers.size());
  for (auto i : kj::indices(plan.timeServers)) servers.set(i, plan.timeServers[i]);
  spec.setLayer(plan.timeServersLayer);
}

struct Kind {
  kj::StringPtr type;
  void (*add)(Outputs&, const NetworkPlan&);
  bool changesKernel;  // a plan of what would be done looks at these
};
// The operators first: a lease is given back while its link is still there. The keys before the
// links that want them.
constexpr Kind kKinds[] = {{"OperatorSpecs.net.talos.dev"_kj, addOperators, false},
                           {"WireguardKeys.secrets.talos.dev"_kj, addKeys, true},
                           {"LinkSpecs.net.talos.dev"_kj, addLinks, true},
                           {"AddressSpecs.net.talos.dev"_kj, addAddresses, true},
                           {"RouteSpecs.net.talos.dev"_kj, addRoutes, true},
                           {"HostnameSpecs.net.talos.dev"_kj, addHostname, false},
                           {"ResolverSpecs.net.talos.dev"_kj, addResolvers, false},
                           {"TimeServerSpecs.net.talos.dev"_kj, addTimeServers, false}};
template <size_t... place>
constexpr auto typesOf(std::index_sequence<place...>) {
  return std::array{kKinds[place].type...};
}
constexpr auto kNetworkOutputs = typesOf(std::make_index_sequence<kj::size(kKinds)>());

}  // namespace

NetworkSpecs::NetworkSpecs(const KernelArguments& arguments, const NetworkConfig& config,
                           Store& store)
    : plan(planNetwork(arguments, config, knownLinks(store), knownLeases(store))) {
  for (auto& kind : kKinds) {
    if (!kind.changesKernel) continue;
    kind.add(*outputs.add(kj::heap<Outputs>("", kind.type, "dry run")), plan);
  }
}

NetworkSpecs::~NetworkSpecs() noexcept(false) = default;

size_t NetworkSpecs::size() const {
  size_t result = 0;
  for (auto& some : outputs) result += some->size();
  return result;
}

void NetworkSpecs::fill(capnp::List<rpc::Resource>::Builder out) {
  unsigned at = 0;
  for (auto& some : outputs) {
    some->each([&](rpc::Resource::Reader resource) { out.setWithCaveats(at++, resource); });
  }
}

NetworkController::NetworkController(const KernelArguments& arguments, ReadConfig readConfig)
    : arguments(arguments), readConfig(kj::mv(readConfig)) {}

kj::ArrayPtr<const Controller::Input> NetworkController::inputs() const {
  return kNetworkInputs;
}
kj::ArrayPtr<const kj::StringPtr> NetworkController::outputs() const {
  return kj::arrayPtr(kNetworkOutputs.data(), kNetworkOutputs.size());
}

kj::Promise<void> NetworkController::reconcile(Store& store) {
  auto config = readConfig(store);
  auto plan =
      planNetwork(arguments, config.map([](auto& c) -> const NetworkConfig& { return c.network; }),
                  knownLinks(store), knownLeases(store));
  for (auto& kind : kKinds) {
    Outputs outputs("", kind.type, name());
    kind.add(outputs, plan);
    outputs.apply(store);
  }
  auto problems = kj::strArray(plan.problems, "; ");
  if (problems != reported && problems.size() > 0)
    log::warn("problems in the network config", {{"problems", problems}});
  reported = kj::mv(problems);
  return kj::READY_NOW;
}

}  // namespace talos::machined
