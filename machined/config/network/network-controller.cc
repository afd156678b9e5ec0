#include "machined/config/network/network-controller.h"

#include <kj/encoding.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/memory/zeroize.h"
#include "common/netlink/netlink-rule.h"
#include "common/netlink/netlink.h"
#include "common/text/texts.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/controllers/host-dns-controller.h"
#include "machined/config/controllers/platform-controller.h"
#include "machined/config/network/node-identity-name.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kLoopback = "lo"_kj;

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
  for (auto spec : store.list<rpc::LinkStatusSpec>()) {
    // A bond gives its members the bond's address.
    bool own = spec.getMemberKind() != "bond" || spec.getPermanentAddress().size() == 0;
    links.add(KnownLink{
        .index = spec.getIndex(),
        .name = kj::str(spec.id()),
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

// Returns the leases. networkd has checked these values when it read them from the network; values
// that do not parse are left out all the same.
kj::Vector<Lease> knownLeases(Store& store) {
  kj::Vector<Lease> leases;
  for (auto spec : store.list<rpc::OperatorStatusSpec>()) {
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

// The platform's statement, which does not exist before the platform's service has answered.
struct KnownPlatform {
  explicit KnownPlatform(Store& store) {
    KJ_IF_MAYBE (spec, store.tryGet<rpc::PlatformConfigSpec>(kPlatformConfigId)) {
      auto& known = network.emplace();
      known.network = spec->getNetwork();
      for (auto server : spec->getTimeServers()) known.timeServers.add(kj::str(server));
    }
  }
  kj::Maybe<const PlatformNetwork&> get() const {
    KJ_IF_MAYBE (known, network) return *known;
    return nullptr;
  }

 private:
  kj::Maybe<PlatformNetwork> network;
};

void addKeys(Outputs<rpc::WireguardKeySpec>& outputs, const NetworkPlan& plan) {
  for (auto& link : plan.links) {
    KJ_IF_MAYBE (secret, link.privateKey) {
      auto text = kj::encodeBase64(secret->bytes());
      KJ_DEFER(zeroize(text));
      outputs.add(link.name).setPrivateKey(text);
    }
  }
}

void addLinks(Outputs<rpc::LinkSpecSpec>& outputs, const NetworkPlan& plan) {
  for (auto& link : plan.links) {
    auto spec = outputs.set(link.name, link.spec.get());
    spec.setName(link.name);
    spec.setUp(true);
    spec.setMtu(link.mtu);
    spec.setLayer(link.layer);
  }
  for (auto& entry : plan.unresolved) {
    auto spec = outputs.add(kj::str("deviceSelector:", entry.selector));
    spec.setLayer(kLayerConfiguration);
    spec.setProblem(entry.problem);
  }
}

void addAddresses(Outputs<rpc::AddressSpecSpec>& outputs, const NetworkPlan& plan) {
  for (auto& address : plan.addresses) {
    auto spec = outputs.add(kj::str(address.link, "/", address.prefix));
    spec.setAddress(address.prefix.toString());
    spec.setLinkName(address.link);
    spec.setFamily(familyOf(address.prefix.address));
    spec.setScope(scopeOf(address.prefix.address));
    spec.setLayer(address.layer);
    spec.setOrder(address.order);
  }
  for (auto& address : plan.resolverAddresses) {
    auto prefix = Prefix::host(address);
    auto spec = outputs.add(kj::str(kLoopback, "/", prefix));
    spec.setAddress(prefix.toString());
    spec.setLinkName(kLoopback);
    spec.setFamily(familyOf(address));
    spec.setScope("host");
    spec.setLayer(kLayerConfiguration);
  }
}

void addRoutes(Outputs<rpc::RouteSpecSpec>& outputs, const NetworkPlan& plan) {
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
    auto table = route.table == 0 ? kj::String() : netlink::tableName(route.table);
    auto spec = outputs.add(kj::str(place, "/", family, "/", gateway, "/", destination, "/",
                                    route.metric, table.size() > 0 ? "/" : "", table));
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
    spec.setTable(table);
  }
}

void addRules(Outputs<rpc::RoutingRuleSpecSpec>& outputs, const NetworkPlan& plan) {
  for (auto& rule : plan.rules) {
    auto spec = rule.get();
    outputs.set(kj::str(spec.getFamily(), "/", spec.getPriority()), spec);
  }
}

void addHostname(Outputs<rpc::HostnameSpecSpec>& outputs, const NetworkPlan& plan) {
  if (plan.hostname.size() == 0) return;
  auto spec = outputs.add("hostname");
  spec.setHostname(plan.hostname);
  spec.setDomainname(plan.domain);
  spec.setLayer(plan.hostnameLayer);
}

void addResolvers(Outputs<rpc::ResolverSpecSpec>& outputs, const NetworkPlan& plan) {
  auto spec = outputs.add("resolvers");
  auto servers = spec.initDnsServers(plan.resolvers.size());
  for (auto i : kj::indices(plan.resolvers)) servers.set(i, plan.resolvers[i].toString());
  spec.setLayer(plan.resolversLayer);
  fillTexts(spec.initSearchDomains(plan.search.size()), plan.search);
}

void addOperators(Outputs<rpc::OperatorSpecSpec>& outputs, const NetworkPlan& plan) {
  // The machine does not announce a default name, or a name from DHCP.
  bool named = plan.hostnameLayer != kLayerDefault && plan.hostnameLayer != kLayerOperator;
  for (auto& o : plan.operators) {
    auto spec = outputs.add(kj::str(o.kind, "/", o.link));
    spec.setOperator(o.kind);
    spec.setLinkName(o.link);
    spec.setRequireUp(true);
    spec.setRouteMetric(o.metric);
    if (named) spec.setHostname(plan.hostname);
    spec.setLayer(o.layer);
    spec.setDuid(netlink::hardwareText(o.duid));
  }
}

void addVips(Outputs<rpc::VipSpecSpec>& outputs, const NetworkPlan& plan) {
  for (auto& vip : plan.vips) {
    auto spec = outputs.add(vip.address.toString());
    spec.setLinkName(vip.link);
    spec.setLeaseTtlMs(vip.lease / kj::MILLISECONDS);
    if (vip.hcloudToken.size() > 0) spec.setProvider("hcloud");
  }
}

void addVipCredentials(Outputs<rpc::VipCredentialsSpec>& outputs, const NetworkPlan& plan) {
  for (auto& vip : plan.vips) {
    if (vip.hcloudToken.size() == 0) continue;
    outputs.add(vip.address.toString()).setApiToken(vip.hcloudToken);
  }
}

void addTimeServers(Outputs<rpc::TimeServerSpecSpec>& outputs, const NetworkPlan& plan) {
  auto spec = outputs.add("timeservers");
  fillTexts(spec.initTimeServers(plan.timeServers.size()), plan.timeServers);
  spec.setLayer(plan.timeServersLayer);
}

struct Kind {
  kj::StringPtr (*type)();
  kj::Own<OutputSet> (*make)(const NetworkPlan& plan, kj::StringPtr owner);
  bool changesKernel;  // a preview uses these kinds
};
template <typename Spec, void (*add)(Outputs<Spec>&, const NetworkPlan&)>
kj::Own<OutputSet> make(const NetworkPlan& plan, kj::StringPtr owner) {
  auto outputs = kj::heap<Outputs<Spec>>(owner);
  add(*outputs, plan);
  return outputs;
}
template <typename Spec, void (*add)(Outputs<Spec>&, const NetworkPlan&)>
constexpr Kind kind(bool changesKernel) {
  return {typeName<Spec>, make<Spec, add>, changesKernel};
}
// A shared address is removed before its link is. The operators come first: a lease is released
// while its link still exists. The keys come before the links that need them.
constexpr Kind kKinds[] = {kind<rpc::VipCredentialsSpec, addVipCredentials>(false),
                           kind<rpc::VipSpecSpec, addVips>(false),
                           kind<rpc::OperatorSpecSpec, addOperators>(false),
                           kind<rpc::WireguardKeySpec, addKeys>(true),
                           kind<rpc::LinkSpecSpec, addLinks>(true),
                           kind<rpc::AddressSpecSpec, addAddresses>(true),
                           kind<rpc::RouteSpecSpec, addRoutes>(true),
                           kind<rpc::RoutingRuleSpecSpec, addRules>(true),
                           kind<rpc::HostnameSpecSpec, addHostname>(false),
                           kind<rpc::ResolverSpecSpec, addResolvers>(false),
                           kind<rpc::TimeServerSpecSpec, addTimeServers>(false)};

}  // namespace

NetworkSpecs::NetworkSpecs(const KernelArguments& arguments, config::Machine::Reader machine,
                           Store& store, kj::ArrayPtr<const Ip> resolverAddresses)
    : plan(planNetwork(arguments, machine, knownLinks(store), knownLeases(store),
                       KnownPlatform(store).get())) {
  plan.resolverAddresses.addAll(resolverAddresses);
  for (auto& kind : kKinds) {
    if (kind.changesKernel) outputs.add(kind.make(plan, "dry run"));
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

kj::Vector<kj::String> networkConfigProblems(const KernelArguments& arguments,
                                             config::Machine::Reader machine, Store& store) {
  auto links = knownLinks(store);
  auto leases = knownLeases(store);
  KnownPlatform platform(store);
  auto without = planNetwork(arguments, nullptr, links, leases, platform.get());
  auto plan = planNetwork(arguments, machine, links, leases, platform.get());
  kj::Vector<kj::String> problems;
  for (auto& problem : plan.problems) {
    if (!contains(without.problems, problem)) problems.add(kj::mv(problem));
  }
  return problems;
}

NetworkController::NetworkController(const KernelArguments& arguments, ReadConfig readConfig,
                                     ReadIdentity readIdentity, kj::Maybe<kj::Timer&> timer)
    : arguments(arguments),
      readConfig(kj::mv(readConfig)),
      readIdentity(kj::mv(readIdentity)),
      timer(timer) {}

kj::Array<Controller::Input> NetworkController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::LinkStatusSpec>(),
                 input<rpc::OperatorStatusSpec>(),
                 input<rpc::PlatformConfigSpec>(kPlatformConfigId), input<rpc::MountStatusSpec>());
}
kj::Array<kj::StringPtr> NetworkController::outputs() const {
  return KJ_MAP(kind, kKinds) {
    return kind.type();
  };
}

bool NetworkController::wantsStableName(Store& store) {
  return readConfig(store)
      .map([](auto& config) { return config.getMachine().getFeatures().getStableHostname(); })
      .orDefault(false);
}

kj::Promise<void> NetworkController::reconcile(Store& store) {
  if (wantsStableName(store) && stableName.size() == 0) co_await findStableName();
  apply(store);
}

// A failure must not fail the run: the node would get no links, addresses and routes.
kj::Promise<void> NetworkController::findStableName() {
  kj::Maybe<kj::Exception> failure;
  auto identity = co_await kj::evalNow([&] {
                    return readIdentity();
                  }).catch_([&](kj::Exception&& e) -> kj::Maybe<kj::String> {
    failure = kj::mv(e);
    return nullptr;
  });
  KJ_IF_MAYBE (found, identity) stableName = nameOfIdentity(*found);
  KJ_IF_MAYBE (e, failure) {
    auto error = messageOf(*e);
    if (error != identityError) {
      log::warn("cannot read the identity of the node, which gives it a stable name; retrying",
                {{"error", error}});
    }
    identityError = kj::mv(error);
    KJ_IF_MAYBE (t, timer) {
      retrying =
          t->afterDelay(identityPause.next()).then([this] { wake(); }).eagerlyEvaluate(nullptr);
    }
  }
}

void NetworkController::apply(Store& store) {
  auto config = readConfig(store);
  auto plan = planNetwork(arguments, config.map([](auto& c) { return c.getMachine(); }),
                          knownLinks(store), knownLeases(store), KnownPlatform(store).get());
  KJ_IF_MAYBE (c, config) plan.resolverAddresses = hostDnsOf(*c).serviceAddresses;
  if (plan.hostnameLayer == kLayerDefault && stableName.size() > 0 && wantsStableName(store)) {
    plan.hostname = kj::str(stableName);
  }
  for (auto& kind : kKinds) kind.make(plan, name())->apply(store);
  auto problems = kj::strArray(plan.problems, "; ");
  if (problems != reported && problems.size() > 0)
    log::warn("problems in the network config", {{"problems", problems}});
  reported = kj::mv(problems);
}

kj::Own<Controller> networkController(ControllerDependencies& deps) {
  return kj::heap<NetworkController>(
      deps.arguments, KJ_BIND_METHOD(deps.config, tryConfig),
      [&deps]() -> kj::Promise<kj::Maybe<kj::String>> {
        if (!deps.isStateMounted()) return kj::Maybe<kj::String>();
        return deps.uv.blocking([]() -> kj::Maybe<kj::String> { return keptIdentity(); });
      },
      deps.timer);
}

}  // namespace talos::machined
