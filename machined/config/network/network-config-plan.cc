#include "machined/config/network/network-config-plan.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/net/text-values.h"
#include "common/text/texts.h"
#include "machined/config/network/network-hidden-values.h"

#include <algorithm>
#include <tuple>

namespace talos::machined {
namespace {

// Parses an address; without a length it gets the full length.
kj::Maybe<Prefix> prefixOf(kj::StringPtr text) {
  KJ_IF_MAYBE (prefix, Prefix::parse(text)) return *prefix;
  KJ_IF_MAYBE (ip, Ip::parse(text)) return Prefix::host(*ip);
  return nullptr;
}

class Planner {
 public:
  Planner(const KernelArguments& arguments, kj::Maybe<config::Machine::Reader> machine,
          kj::ArrayPtr<const KnownLink> known, kj::ArrayPtr<const Lease> given,
          kj::Maybe<const PlatformNetwork&> platform)
      : arguments(arguments), machine(machine), known(known), platform(platform) {
    for (auto& lease : given) leases.add(&lease);
    std::sort(leases.begin(), leases.end(), [](auto a, auto b) {
      return std::tie(a->link, a->kind) < std::tie(b->link, b->kind);
    });
  }

  NetworkPlan run() {
    KJ_IF_MAYBE (text, arguments.first("ip")) {
      ip = parseIpParameter(*text, plan.problems);
    }
    KJ_IF_MAYBE (m, machine) {
      for (auto entry : m->getNetwork().getInterfaces()) addInterface(entry);
      addPorts();
      makeDummies(plan.links, known);
      for (auto route : m->getNetwork().getRoutes()) addConfigRoute("", route);
      planRules(plan, m->getNetwork());
      for (auto& hidden : hiddenValues(m->getNetwork(), known, plan)) problem(hidden);
    }
    KJ_IF_MAYBE (p, platform) addPlatform(p->network);
    addBondsOfCommandLine();
    addVlansOfCommandLine();
    addFromCommandLine();
    dropAddressesOfMembers(plan);
    addDefaultOperators();
    dropStaleLeases();
    for (auto lease : leases) addLease(*lease);
    chooseNames(arguments, machine, platform, ip, leases, plan);
    return kj::mv(plan);
  }

 private:
  const KernelArguments& arguments;
  kj::Maybe<config::Machine::Reader> machine;
  kj::ArrayPtr<const KnownLink> known;
  kj::Maybe<const PlatformNetwork&> platform;
  kj::StringPtr layer = kLayerConfiguration;  // layer of the entries that are being read
  kj::Vector<const Lease*> leases;            // leases that count, in the order of links
  kj::Maybe<IpParameter> ip;
  kj::Vector<kj::String> named;  // links that have entries in the config
  struct Port {
    kj::String bridge, link;
  };
  kj::Vector<Port> ports;  // of bridges that a later entry may make
  NetworkPlan plan;

  template <typename... Parts>
  void problem(Parts&&... parts) {
    plan.problems.add(kj::str(kj::fwd<Parts>(parts)...));
  }

  bool ignored(kj::StringPtr link) const {
    return arguments.contains("talos.network.interface.ignore", link);
  }

  bool hasAddress(kj::StringPtr link) const {
    for (auto& address : plan.addresses) {
      if (address.link == link) return true;
    }
    return false;
  }

  kj::Maybe<const NetworkPlan::Operator&> operatorOf(kj::StringPtr link, kj::StringPtr kind) const {
    for (auto& o : plan.operators) {
      if (o.link == link && o.kind == kind) return o;
    }
    return nullptr;
  }

  void addOperator(kj::StringPtr kind, kj::StringPtr link, unsigned metric, kj::StringPtr layer,
                   config::DhcpOptions::Reader options = {}) {
    if (operatorOf(link, kind) != nullptr) return;
    plan.operators.add(NetworkPlan::Operator{
        kind, kj::str(link), metric == 0 ? kOperatorRouteMetric : metric, layer,
        options.getIgnoreHostname(),
        config::parseDuid(kind == kDhcp4 ? ""_kj : kj::StringPtr(options.getDuidv6()))
            .orDefault(nullptr)});
  }

  // The same link may be in several entries of the config: their settings add up.
  NetworkPlan::Link& addLink(kj::StringPtr name, unsigned mtu, kj::StringPtr layer) {
    for (auto& link : plan.links) {
      if (link.name != name) continue;
      if (mtu != 0 && link.mtu == 0) link.mtu = mtu;
      return link;
    }
    return plan.links.add(NetworkPlan::Link{kj::str(name), mtu, layer});
  }

  // Returns false, with a problem, if an earlier entry gave the link another kind.
  bool makes(NetworkPlan::Link& link, kj::StringPtr kind) {
    if (link.kind().size() > 0 && link.kind() != kind) {
      problem(link.name, ": it is a ", link.kind(), " already and cannot also be a ", kind);
      return false;
    }
    link.setKind(kind);
    return true;
  }

  void addBond(config::Bond::Reader bond, kj::StringPtr name) {
    auto& link = addLink(name, 0, layer);
    if (!makes(link, "bond")) return;
    link.spec.edit().setBondMaster(bond);
    addMembers(name, bond.getInterfaces());
    for (auto selector : bond.getDeviceSelectors()) addMembers(name, selector);
  }

  // Adds all links that the selector matches; while no link matches, the selector is unresolved.
  void addMembers(kj::StringPtr master, config::DeviceSelector::Reader selector) {
    bool some = known.size() == 0;
    for (auto& link : known) {
      if (link.name == master || !matches(selector, link)) continue;
      named.add(kj::str(link.name));
      addMember(master, link.name, layer);
      some = true;
    }
    if (some) return;
    auto text = describe(selector);
    auto error = kj::str(master, ": no link matches the deviceSelector ", text);
    addUnresolved(kj::mv(text), kj::mv(error));
  }

  void addMembers(kj::StringPtr master, capnp::List<capnp::Text>::Reader members) {
    for (auto member : members) {
      KJ_IF_MAYBE (link, resolved(member)) addMember(master, *link, layer);
    }
  }

  void addBridge(config::Bridge::Reader bridge, kj::StringPtr name) {
    auto& link = addLink(name, 0, layer);
    if (!makes(link, "bridge")) return;
    link.setBridge(bridge);
    addMembers(name, bridge.getInterfaces());
  }

  // Ports whose bridge no entry makes keep their addresses.
  void addPorts() {
    for (auto& port : ports) {
      bool isMade = false;
      KJ_IF_MAYBE (bridge, plan.find(port.bridge)) {
        isMade = bridge->kind() == "bridge" && port.bridge != port.link;
      }
      if (isMade) {
        addMember(port.bridge, port.link, layer);
      } else {
        problem(port.link, ": bridgePort is ignored: no other entry makes the bridge ",
                port.bridge);
      }
    }
    ports.clear();
  }

  void addVrf(config::Vrf::Reader vrf, kj::StringPtr name) {
    auto& link = addLink(name, 0, layer);
    if (!makes(link, "vrf")) return;
    link.setVrf(vrf.getTable());
    addMembers(name, vrf.getInterfaces());
  }

  // Returns the link with the name or alias; nullptr if the links are not known yet, or if the
  // alias is that of no link, or of several.
  kj::Maybe<kj::String> resolved(kj::StringPtr name) {
    capnp::List<config::LinkAlias>::Reader aliases;
    KJ_IF_MAYBE (m, machine) aliases = m->getNetwork().getLinkAliases();
    kj::String error;
    auto link = linkCalled(name, aliases, known, error);
    if (error.size() > 0) addUnresolved(kj::str(name), kj::mv(error));
    return link;
  }

  void addMember(kj::StringPtr master, kj::StringPtr member, kj::StringPtr layer) {
    if (ignored(member)) {
      problem(master, ": its link ", member, " is set to be ignored and is left out");
      return;
    }
    auto& link = addLink(member, 0, layer);
    if (link.master().size() > 0 && link.master() != master) {
      problem(master, ": its link ", member, " is in ", link.master(), " already");
    } else {
      link.spec.edit().setMasterName(master);
    }
  }

  void addVlan(kj::StringPtr parent, config::Vlan::Reader vlan) {
    auto id = vlan.getVlanId();
    KJ_IF_MAYBE (name, vlanName(parent, id)) {
      auto& link = addLink(*name, vlan.getMtu(), layer);
      if (!makes(link, "vlan")) return;
      link.setVlan(parent, id);
      addAddressing(*name, vlan, vlan.getDhcp(), false);
    } else {
      problem(parent, ": the link name of VLAN ", id, ", ", parent, ".", id,
              ", would have more than 15 characters");
    }
  }

  // Adds addresses, routes, operators and the shared address of a link or VLAN. `addressed`: the
  // link needs no router advertisements, even without an address.
  template <typename Reader>
  void addAddressing(kj::StringPtr link, Reader entry, bool dhcp, bool addressed) {
    bool cidr = entry.getCidr().size() > 0;
    if (cidr) addConfigAddress(link, entry.getCidr());
    for (auto address : entry.getAddresses()) addConfigAddress(link, address);
    for (auto route : entry.getRoutes()) addConfigRoute(link, route);
    auto options = entry.getDhcpOptions();
    bool dhcp4 = dhcp && (!entry.hasDhcpOptions() || options.getIpv4());
    bool dhcp6 = dhcp && entry.hasDhcpOptions() && options.getIpv6();
    addressed = addressed || cidr || entry.getAddresses().size() > 0 || hasAddress(link);
    addOperators(link, dhcp4, dhcp6, addressed, options);
    addVip(link, entry.getVip());
  }

  void addAddress(kj::StringPtr link, const Prefix& prefix, kj::StringPtr layer) {
    unsigned order = 0;
    for (auto& other : plan.addresses) {
      if (other.link != link) continue;
      if (other.prefix == prefix) return;
      ++order;
    }
    plan.addresses.add(NetworkPlan::Address{kj::str(link), prefix, layer, order});
  }

  // Adds the operators of a link in the config.
  void addOperators(kj::StringPtr link, bool dhcp4, bool dhcp6, bool addressed,
                    config::DhcpOptions::Reader options) {
    auto metric = options.getRouteMetric();
    if (dhcp4) addOperator(kDhcp4, link, metric, layer, options);
    if (dhcp6) addOperator(kDhcp6, link, metric, layer, options);
    // Where routers may give the address, they may give resolvers too.
    if (dhcp4 || dhcp6 || !addressed) addOperator(kRouters, link, metric, layer, options);
  }

  void addConfigAddress(kj::StringPtr link, kj::StringPtr text) {
    KJ_IF_MAYBE (prefix, prefixOf(text)) {
      addAddress(link, *prefix, layer);
    } else {
      problem(link, ": cidr \"", text,
              "\" is not a valid address with a prefix length; for example 10.5.0.2/24");
    }
  }

  void addVip(kj::StringPtr link, config::Vip::Reader vip) {
    if (vip.getIp().size() == 0) return;
    KJ_IF_MAYBE (address, Ip::parse(vip.getIp())) {
      for (auto& other : plan.vips) {
        if (other.address != *address) continue;
        problem(link, ": the shared address ", *address, " is on ", other.link, " already");
        return;
      }
      auto lease = config::parseDuration(vip.getLeaseTTL()).orDefault(config::kDefaultVipLease);
      plan.vips.add(
          NetworkPlan::Vip{kj::str(link), *address, lease, kj::str(vip.getHcloud().getApiToken())});
    } else {
      problem(link, ": \"", vip.getIp(), "\" is not a valid shared address");
    }
  }

  // Returns the bond, bridge or VRF of the link; empty without one.
  kj::StringPtr masterOf(kj::StringPtr name) const {
    KJ_IF_MAYBE (link, plan.find(name)) return link->master();
    return "";
  }

  // Returns the planned route with the same link, destination, metric and table.
  kj::Maybe<const NetworkPlan::Route&> inPlaceOf(const NetworkPlan::Route& route) const {
    for (auto& other : plan.routes) {
      if (other.link == route.link && other.destination == route.destination &&
          other.metric == route.metric && other.table == route.table) {
        return other;
      }
    }
    return nullptr;
  }

  void addRoute(NetworkPlan::Route route) {
    if (inPlaceOf(route) == nullptr) plan.routes.add(kj::mv(route));
  }

  // Returns the link of the entry; nullptr if the entry has no link, or if the links are not known
  // yet.
  kj::Maybe<kj::String> nameOf(config::Interface::Reader entry) {
    if (entry.hasDeviceSelector()) {
      auto selector = entry.getDeviceSelector();
      if (known.size() == 0) return nullptr;
      kj::String error;
      KJ_IF_MAYBE (name, choose(selector, known, error)) return kj::str(*name);
      addUnresolved(describe(selector), kj::mv(error));
      return nullptr;
    }
    if (entry.getInterface().size() == 0) {
      problem("machine.network.interfaces: entry ignored: `interface` is missing");
      return nullptr;
    }
    return resolved(entry.getInterface());
  }

  void addUnresolved(kj::String selector, kj::String error) {
    for (auto& other : plan.unresolved) {
      if (other.selector == selector) return;
    }
    problem(error);
    plan.unresolved.add(NetworkPlan::Unresolved{kj::mv(selector), kj::mv(error)});
  }

  // Ignores all links that the selector matches.
  void ignore(config::DeviceSelector::Reader selector) {
    for (auto& link : known) {
      if (matches(selector, link)) named.add(kj::str(link.name));
    }
  }

  void addInterface(config::Interface::Reader entry) {
    if (entry.getIgnore() && entry.hasDeviceSelector()) return ignore(entry.getDeviceSelector());
    KJ_IF_MAYBE (name, nameOf(entry)) {
      if (entry.getSharedOnly()) return addVip(*name, entry.getVip());
      named.add(kj::str(*name));
      if (ignored(*name)) return;
      if (!entry.getIgnore()) return addInterface(entry, *name);
      // Another program configures the link; the shared address belongs to the node all the same.
      addVip(*name, entry.getVip());
    }
  }

  void addInterface(config::Interface::Reader entry, kj::StringPtr name) {
    auto& link = addLink(name, entry.getMtu(), layer);
    auto tag = entry.getTaggedOn();
    KJ_IF_MAYBE (parent, entry.hasTaggedOn() ? resolved(tag.getParent()) : nullptr) {
      if (makes(link, "vlan")) {
        link.setVlan(*parent, tag.getVlanId(), tag.getProtocol());
        addLink(*parent, 0, layer);
      }
    }
    if (entry.hasBond()) addBond(entry.getBond(), name);
    if (entry.hasBridge()) addBridge(entry.getBridge(), name);
    if (entry.hasVrf()) addVrf(entry.getVrf(), name);
    if (entry.hasVeth()) {
      auto& end = addLink(name, 0, layer);
      if (makes(end, "veth")) end.setVeth(entry.getVeth().getPeer());
    }
    if (entry.hasBridgePort()) {
      KJ_IF_MAYBE (bridge, resolved(entry.getBridgePort().getMaster())) {
        ports.add(Port{kj::mv(*bridge), kj::str(name)});
      }
    }
    if (entry.hasWireguard()) addTunnel(entry.getWireguard(), name);
    if (entry.getDummy()) makes(addLink(name, 0, layer), "dummy");
    // The config's checks refuse an entry with both; the address would win.
    bool dhcp = entry.getDhcp() && entry.getCidr().size() == 0;
    addAddressing(name, entry, dhcp, entry.hasWireguard() || entry.hasVrf());
    for (auto vlan : entry.getVlans()) addVlan(name, vlan);
  }

  // For a link in the config, the platform's statements do not count.
  void addPlatform(config::Network::Reader network) {
    layer = kLayerPlatform;
    auto ofConfig = KJ_MAP(name, named) {
      return kj::str(name);
    };
    auto isConfigs = [&](kj::StringPtr name) { return contains(ofConfig, name); };
    kj::Vector<kj::String> silent;  // links without addresses and DHCP in the platform's statement
    for (auto entry : network.getInterfaces()) {
      KJ_IF_MAYBE (name, nameOf(entry)) {
        if (predictableNames(arguments)) *name = cardOfKernel(kj::mv(*name), known);
        if (ignored(*name) || isConfigs(*name)) continue;
        named.add(kj::str(*name));
        addInterface(entry, *name);
        bool addressed = entry.getDhcp() || entry.getAddresses().size() > 0 || entry.hasBond();
        if (!addressed) silent.add(kj::mv(*name));
      }
    }
    addPorts();
    // Without DHCP the platform could no longer be reached.
    for (auto& name : silent) {
      if (masterOf(name).size() == 0) addOperator(kDhcp4, name, 0, layer);
    }
    layer = kLayerConfiguration;
  }

  void addTunnel(config::Wireguard::Reader wireguard, kj::StringPtr name) {
    auto& link = addLink(name, 0, layer);
    if (!makes(link, "wireguard")) return;
    link.setWireguard(wireguard);
    if (link.privateKey == nullptr) {
      problem(name, ": its private key is not valid base64 of 32 bytes");
    }
  }

  void addConfigRoute(kj::StringPtr link, config::Route::Reader route) {
    auto destination = config::destinationOf(route);
    if (destination == nullptr) {
      problem(link, ": a route is ignored: network \"", route.getNetwork(), "\" and gateway \"",
              route.getGateway(), "\" give no destination");
      return;
    }
    NetworkPlan::Route result{kj::str(link), KJ_ASSERT_NONNULL(destination), nullptr,
                              route.getMetric() == 0 ? kStaticRouteMetric : route.getMetric(),
                              layer};
    auto refuse = [&](auto&&... reason) {
      problem(link, ": the route to ", result.destination, " is ignored: ", reason...);
    };
    result.type = route.getType();
    result.table = route.getTable();
    auto add = [&]() {
      KJ_IF_MAYBE (other, inPlaceOf(result)) {
        if (*other != result) {
          refuse("another route of metric ", result.metric,
                 " has the same network; set another metric");
        }
        return;
      }
      plan.routes.add(kj::mv(result));
    };
    if (route.getType() != config::RouteType::UNICAST) {
      result.link = kj::String();
      return add();
    }
    result.mtu = route.getMtu();
    result.onlink = route.getOnlink();
    auto family = result.destination.address.family();
    for (kj::StringPtr text : {route.getGateway(), route.getSource()}) {
      if (text.size() == 0) continue;
      KJ_IF_MAYBE (address, Ip::parse(text)) {
        if (address->family() == family) continue;
        return refuse(text, " and its network are not both IPv4 or both IPv6");
      }
      return refuse("\"", text, "\" is not a valid address");
    }
    KJ_IF_MAYBE (gateway, Ip::parse(route.getGateway())) {
      if (!gateway->isAny()) result.gateway = *gateway;  // 0.0.0.0 and :: mean: on the link
    }
    KJ_IF_MAYBE (source, Ip::parse(route.getSource())) result.source = *source;
    add();
  }

  // --- the command line
  void addBondsOfCommandLine() {
    for (auto text : arguments.all("bond")) {
      KJ_IF_MAYBE (parameter, parseBondParameter(text, plan.problems)) {
        if (left(parameter->name)) continue;
        auto& bond = addLink(parameter->name, parameter->mtu, kLayerCmdline);
        if (bond.kind().size() > 0) continue;  // the config makes it
        bond.setKind("bond");
        bond.spec.edit().setBondMaster(parameter->bond.get());
        for (auto member : parameter->bond.get().getInterfaces()) {
          if (isNamed(member)) {
            problem(parameter->name, ": its link ", member, " has its own config and is left out");
          } else {
            addMember(parameter->name, member, kLayerCmdline);
          }
        }
      }
    }
  }

  void addVlansOfCommandLine() {
    for (auto text : arguments.all("vlan")) {
      KJ_IF_MAYBE (parameter, parseVlanParameter(text, plan.problems)) {
        if (left(parameter->name) || left(parameter->parent)) continue;
        addLink(parameter->parent, 0, kLayerCmdline);
        auto& vlan = addLink(parameter->name, 0, kLayerCmdline);
        if (vlan.kind().size() > 0) continue;
        vlan.setKind("vlan");
        vlan.setVlan(parameter->parent, parameter->id);
      }
    }
  }

  // Returns true if the config or the command line says that the link must not be touched.
  bool left(kj::StringPtr link) const {
    return ignored(link) || (isNamed(link) && plan.find(link) == nullptr);
  }
  bool isNamed(kj::StringPtr link) const { return contains(named, link); }

  // Returns the link that `ip=` is for; nullptr while the links are not known.
  kj::Maybe<kj::String> linkOfParameter(kj::StringPtr device) const {
    const KnownLink* first = nullptr;
    if (plan.find(device) != nullptr) return kj::str(device);
    for (auto& link : known) {
      if (link.name == device) return kj::str(device);
      if (!link.loopback && !ignored(link.name) && masterOf(link.name).size() == 0 &&
          (first == nullptr || link.index < first->index))
        first = &link;
    }
    if (known.size() == 0 && device.size() > 0) return kj::str(device);
    if (first == nullptr) return nullptr;
    return kj::str(first->name);
  }

  void addFromCommandLine() {
    KJ_IF_MAYBE (parameter, ip) {
      KJ_IF_MAYBE (link, linkOfParameter(parameter->device)) {
        if (ignored(*link) || hasAddress(*link) || operatorOf(*link, kDhcp4) != nullptr) return;
        addLink(*link, 0, kLayerCmdline);
        addAddress(*link, parameter->address, kLayerCmdline);
        KJ_IF_MAYBE (gateway, parameter->gateway) {
          addRoute(
              {kj::mv(*link), Prefix::all(AF_INET), *gateway, kStaticRouteMetric, kLayerCmdline});
        }
      }
    }
  }

  // An entry that says only "ignore" configures the link, too: the link must not be touched.
  bool configured(kj::StringPtr link) const { return isNamed(link) || plan.find(link) != nullptr; }

  // Returns true for a bond or VLAN that only the command line has, without another link on top.
  bool asksByItself(const NetworkPlan::Link& link) const {
    if (link.layer != kLayerCmdline || link.kind().size() == 0) return false;
    for (auto& other : plan.links) {
      if (other.parent() == link.name) return false;
    }
    return link.master().size() == 0 && !hasAddress(link.name);
  }

  void addDefaultOperators() {
    for (auto& link : plan.links) {
      if (!asksByItself(link)) continue;
      addOperator(kDhcp4, link.name, 0, kLayerCmdline);
      addOperator(kRouters, link.name, 0, kLayerCmdline);
    }
    KJ_IF_MAYBE (m, machine) {
      if (m->getNetwork().getOnlyConfigured()) return;
    }
    for (auto& link : known) {
      bool named = link.name.startsWith("en") || link.name.startsWith("eth");
      if (!link.hardware || !named || ignored(link.name) || configured(link.name)) continue;
      addLink(link.name, 0, kLayerDefault);
      addOperator(kDhcp4, link.name, 0, kLayerDefault);
      addOperator(kRouters, link.name, 0, kLayerDefault);
    }
  }

  void dropStaleLeases() {
    kj::Vector<const Lease*> wanted;
    for (auto lease : leases) {
      if (operatorOf(lease->link, lease->kind) != nullptr) wanted.add(lease);
    }
    leases = kj::mv(wanted);
  }

  void addLease(const Lease& lease) {
    if (lease.mtu != 0) addLink(lease.link, lease.mtu, kLayerOperator);
    for (auto& prefix : lease.addresses) {
      addAddress(lease.link, prefix, kLayerOperator);
    }
    auto metric = KJ_ASSERT_NONNULL(operatorOf(lease.link, lease.kind)).metric;
    for (auto& route : lease.routes) {
      // If two links have leases for the same destination, the first link is preferred.
      auto own = metric;
      while (isTaken(plan, route.destination, own, lease.link)) ++own;
      addRoute({kj::str(lease.link), route.destination, route.gateway, own, kLayerOperator});
    }
  }
};

}  // namespace

NetworkPlan planNetwork(const KernelArguments& arguments,
                        kj::Maybe<config::Machine::Reader> machine,
                        kj::ArrayPtr<const KnownLink> known, kj::ArrayPtr<const Lease> leases,
                        kj::Maybe<const PlatformNetwork&> platform) {
  return Planner(arguments, machine, known, leases, platform).run();
}

}  // namespace talos::machined
