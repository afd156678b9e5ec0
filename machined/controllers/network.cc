#include "machined/controllers/network.h"

#include "common/log.h"
#include "machined/resources/outputs.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kLinkStatuses = "LinkStatuses.net.talos.dev"_kj;
constexpr kj::StringPtr kOutputs[] = {
    "LinkSpecs.net.talos.dev"_kj, "AddressSpecs.net.talos.dev"_kj, "RouteSpecs.net.talos.dev"_kj,
    "HostnameSpecs.net.talos.dev"_kj, "ResolverSpecs.net.talos.dev"_kj};
const Controller::Input kInputs[] = {{"", kMachineConfigs, kMachineConfigId}, {"", kLinkStatuses}};

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
    links.add(KnownLink{spec.getIndex(), kj::str(resource.getMetadata().getId()),
                        spec.getType() == "loopback"});
  }
  return links;
}

void addLinks(Outputs& outputs, const NetworkPlan& plan) {
  for (auto& link : plan.links) {
    auto spec = outputs.add<rpc::LinkSpecSpec>(link.name);
    spec.setName(link.name);
    spec.setUp(true);
    spec.setMtu(link.mtu);
    spec.setLayer(link.layer);
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
    auto spec = outputs.add<rpc::RouteSpecSpec>(
        kj::str(route.link, "/", family, "/", gateway, "/", destination, "/", route.metric));
    spec.setFamily(family);
    spec.setDestination(destination);
    spec.setGateway(gateway);
    spec.setLinkName(route.link);
    spec.setMetric(route.metric);
    spec.setLayer(route.layer);
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
}

}  // namespace

NetworkController::NetworkController(const KernelArguments& arguments, ReadConfig readConfig)
    : arguments(arguments), readConfig(kj::mv(readConfig)) {}

kj::ArrayPtr<const Controller::Input> NetworkController::inputs() const {
  return kInputs;
}
kj::ArrayPtr<const kj::StringPtr> NetworkController::outputs() const {
  return kOutputs;
}

kj::Promise<void> NetworkController::reconcile(Store& store) {
  auto config = readConfig(store);
  auto plan =
      planNetwork(arguments, config.map([](auto& c) -> const NetworkConfig& { return c.network; }),
                  knownLinks(store));
  constexpr void (*kAdd[])(Outputs&, const NetworkPlan&) = {addLinks, addAddresses, addRoutes,
                                                            addHostname, addResolvers};
  for (auto i : kj::indices(kOutputs)) {
    Outputs outputs("", kOutputs[i], name());
    kAdd[i](outputs, plan);
    outputs.apply(store);
  }
  auto problems = kj::strArray(plan.problems, "; ");
  if (problems != reported && problems.size() > 0)
    log::warn("network config", {{"problems", problems}});
  reported = kj::mv(problems);
  return kj::READY_NOW;
}

}  // namespace talos::machined
