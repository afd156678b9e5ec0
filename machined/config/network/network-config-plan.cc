#include "machined/config/network/network-config-plan.h"

#include <algorithm>
#include <tuple>

namespace talos::machined {
namespace {

// An address without a length stands for itself alone.
kj::Maybe<Prefix> prefixOf(kj::StringPtr text) {
  KJ_IF_MAYBE (prefix, Prefix::parse(text)) return *prefix;
  KJ_IF_MAYBE (ip, Ip::parse(text)) return Prefix::host(*ip);
  return nullptr;
}

class Planner {
 public:
  Planner(const KernelArguments& arguments, kj::Maybe<const NetworkConfig&> config,
          kj::ArrayPtr<const KnownLink> known, kj::ArrayPtr<const Lease> given)
      : arguments(arguments), config(config), known(known) {
    for (auto& lease : given) leases.add(&lease);
    std::sort(leases.begin(), leases.end(), [](auto a, auto b) {
      return std::tie(a->link, a->kind) < std::tie(b->link, b->kind);
    });
  }

  NetworkPlan run() {
    KJ_IF_MAYBE (text, arguments.first("ip")) {
      ip = parseIpParameter(*text, plan.problems);
    }
    KJ_IF_MAYBE (c, config) {
      for (auto& device : c->devices) addDevice(device);
    }
    addBondsOfCommandLine();
    addVlansOfCommandLine();
    addFromCommandLine();
    dropAddressesOfMembers();
    addDefaultOperators();
    dropStaleLeases();
    for (auto lease : leases) addLease(*lease);
    chooseNames(arguments, config, ip, leases, plan);
    return kj::mv(plan);
  }

 private:
  const KernelArguments& arguments;
  kj::Maybe<const NetworkConfig&> config;
  kj::ArrayPtr<const KnownLink> known;
  kj::Vector<const Lease*> leases;  // in the order of links, those that count
  kj::Maybe<IpParameter> ip;
  kj::Vector<kj::String> named;  // links that entries of the config are for
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

  void addOperator(kj::StringPtr kind, kj::StringPtr link, unsigned metric, kj::StringPtr layer) {
    if (operatorOf(link, kind) != nullptr) return;
    plan.operators.add(NetworkPlan::Operator{kind, kj::str(link),
                                             metric == 0 ? kOperatorRouteMetric : metric, layer});
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

  // False, with a problem, when an entry before said that the link is something else.
  bool makes(NetworkPlan::Link& link, kj::StringPtr kind) {
    if (link.making.kind.size() > 0 && link.making.kind != kind) {
      problem(link.name, ": it is a ", link.making.kind, " already and cannot also be a ", kind);
      return false;
    }
    link.making.kind = kj::str(kind);
    return true;
  }

  void addBond(const NetworkConfig::Device& device, kj::StringPtr name) {
    auto& bond = addLink(name, 0, kLayerConfiguration);
    if (!makes(bond, "bond")) return;
    bond.making.bond = device.bond;
    for (auto member : device.bond->get().getInterfaces())
      addMember(name, member, kLayerConfiguration);
  }

  void addBridge(const NetworkConfig::Device& device, kj::StringPtr name) {
    auto& bridge = addLink(name, 0, kLayerConfiguration);
    if (!makes(bridge, "bridge")) return;
    bridge.making.bridge = device.bridge;
    for (auto& port : device.bridge->interfaces) addMember(name, port, kLayerConfiguration);
  }

  void addMember(kj::StringPtr master, kj::StringPtr member, kj::StringPtr layer) {
    if (ignored(member)) {
      problem(master, ": its link ", member, " is set to be ignored and is left out");
      return;
    }
    auto& link = addLink(member, 0, layer);
    if (link.making.master.size() > 0 && link.making.master != master) {
      problem(master, ": its link ", member, " is in ", link.making.master, " already");
    } else {
      link.making.master = kj::str(master);
    }
  }

  void addVlan(kj::StringPtr parent, const NetworkConfig::Vlan& vlan) {
    KJ_IF_MAYBE (name, vlanName(parent, vlan.id)) {
      auto& link = addLink(*name, vlan.mtu, kLayerConfiguration);
      if (!makes(link, "vlan")) return;
      link.making.parent = kj::str(parent);
      link.making.vlanId = vlan.id;
      addAddresses(*name, vlan.addresses);
      for (auto& route : vlan.routes) addConfigRoute(*name, route);
      KJ_IF_MAYBE (vip, vlan.vip) addVip(*name, *vip);
      addOperators(*name, vlan.dhcp4, vlan.dhcp6, vlan.addresses.size() > 0, vlan.dhcpMetric);
    } else {
      problem(parent, ": the link name of VLAN ", vlan.id, ", ", parent, ".", vlan.id,
              ", would have more than 15 characters");
    }
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

  // What asks the network of a link, where the config says so.
  void addOperators(kj::StringPtr link, bool dhcp4, bool dhcp6, bool addressed, unsigned metric) {
    if (dhcp4) addOperator(kDhcp4, link, metric, kLayerConfiguration);
    if (dhcp6) addOperator(kDhcp6, link, metric, kLayerConfiguration);
    // Where routers may give the address, they may give resolvers too.
    if (dhcp4 || dhcp6 || !addressed) addOperator(kRouters, link, metric, kLayerConfiguration);
  }

  void addAddresses(kj::StringPtr link, const kj::Vector<kj::String>& texts) {
    for (auto& text : texts) {
      KJ_IF_MAYBE (prefix, prefixOf(text)) {
        addAddress(link, *prefix, kLayerConfiguration);
      } else {
        problem(link, ": cidr \"", text,
                "\" is not a valid address with a prefix length; for example 10.5.0.2/24");
      }
    }
  }

  void addVip(kj::StringPtr link, const NetworkConfig::Vip& vip) {
    KJ_IF_MAYBE (address, Ip::parse(vip.address)) {
      for (auto& other : plan.vips) {
        if (other.address != *address) continue;
        problem(link, ": the shared address ", *address, " is on ", other.link, " already");
        return;
      }
      plan.vips.add(NetworkPlan::Vip{kj::str(link), *address, vip.lease});
    } else {
      problem(link, ": \"", vip.address, "\" is not a valid shared address");
    }
  }

  // What the link belongs to; empty: nothing.
  kj::StringPtr masterOf(kj::StringPtr name) const {
    for (auto& link : plan.links) {
      if (link.name == name) return link.making.master;
    }
    return "";
  }

  // The bond or bridge has the addresses.
  void dropAddressesOfMembers() {
    kj::Vector<NetworkPlan::Address> addresses;
    for (auto& address : plan.addresses) {
      auto master = masterOf(address.link);
      if (master.size() == 0) {
        addresses.add(kj::mv(address));
      } else {
        problem(address.link, ": is part of ", master, " and cannot have the address ",
                address.prefix);
      }
    }
    plan.addresses = kj::mv(addresses);
    kj::Vector<NetworkPlan::Operator> operators;
    for (auto& asked : plan.operators) {
      auto master = masterOf(asked.link);
      if (master.size() == 0) {
        operators.add(kj::mv(asked));
      } else if (asked.kind != kRouters) {
        problem(asked.link, ": is part of ", master, " and cannot use DHCP");
      }
    }
    plan.operators = kj::mv(operators);
    kj::Vector<NetworkPlan::Vip> vips;
    for (auto& vip : plan.vips) {
      auto master = masterOf(vip.link);
      if (master.size() == 0) {
        vips.add(kj::mv(vip));
      } else {
        problem(vip.link, ": is part of ", master, " and cannot have the shared address ",
                vip.address);
      }
    }
    plan.vips = kj::mv(vips);
  }

  // The one that has the place of this route already.
  kj::Maybe<const NetworkPlan::Route&> inPlaceOf(const NetworkPlan::Route& route) const {
    for (auto& other : plan.routes) {
      if (other.link == route.link && other.destination == route.destination &&
          other.metric == route.metric) {
        return other;
      }
    }
    return nullptr;
  }

  void addRoute(NetworkPlan::Route route) {
    if (inPlaceOf(route) == nullptr) plan.routes.add(kj::mv(route));
  }

  // The link that the entry is for; none: it is for none, or nobody knows yet which.
  kj::Maybe<kj::String> nameOf(const NetworkConfig::Device& device) {
    KJ_IF_MAYBE (selector, device.selector) {
      if (known.size() == 0) return nullptr;
      kj::String why;
      KJ_IF_MAYBE (name, choose(*selector, known, why)) return kj::str(*name);
      addUnresolved(selector->describe(), kj::mv(why));
      return nullptr;
    }
    if (device.interface.size() == 0) {
      problem("machine.network.interfaces: entry ignored: `interface` is missing");
      return nullptr;
    }
    return kj::str(device.interface);
  }

  void addUnresolved(kj::String selector, kj::String why) {
    for (auto& other : plan.unresolved) {
      if (other.selector == selector) return;
    }
    problem(why);
    plan.unresolved.add(NetworkPlan::Unresolved{kj::mv(selector), kj::mv(why)});
  }

  // Left alone is whatever the entry may mean.
  void ignore(const DeviceSelector& selector) {
    for (auto& link : known) {
      if (selector.matches(link)) named.add(kj::str(link.name));
    }
  }

  void addDevice(const NetworkConfig::Device& device) {
    if (device.ignore) {
      KJ_IF_MAYBE (selector, device.selector) return ignore(*selector);
    }
    KJ_IF_MAYBE (name, nameOf(device)) {
      named.add(kj::str(*name));
      if (ignored(*name)) return;
      if (!device.ignore) return addDevice(device, *name);
      // Somebody else configures it; the shared address is the node's all the same.
      KJ_IF_MAYBE (vip, device.vip) addVip(*name, *vip);
    }
  }

  void addDevice(const NetworkConfig::Device& device, kj::StringPtr name) {
    addLink(name, device.mtu, kLayerConfiguration);
    if (device.bond != nullptr) addBond(device, name);
    if (device.bridge != nullptr) addBridge(device, name);
    if (device.wireguard != nullptr) addTunnel(device, name);
    if (device.dummy) makes(addLink(name, 0, kLayerConfiguration), "dummy");
    addAddresses(name, device.addresses);
    for (auto& route : device.routes) addConfigRoute(name, route);
    bool addressed = device.addresses.size() > 0 || device.wireguard != nullptr;
    addOperators(name, device.dhcp4, device.dhcp6, addressed, device.dhcpMetric);
    KJ_IF_MAYBE (vip, device.vip) addVip(name, *vip);
    for (auto& vlan : device.vlans) addVlan(name, vlan);
  }

  void addTunnel(const NetworkConfig::Device& device, kj::StringPtr name) {
    auto& link = addLink(name, 0, kLayerConfiguration);
    if (!makes(link, "wireguard")) return;
    link.making.wireguard = device.wireguard;
    if (device.wireguard->privateKey == nullptr) {
      problem(name, ": its private key is not valid base64 of 32 bytes");
    }
  }

  void addConfigRoute(kj::StringPtr link, const NetworkConfig::Route& route) {
    auto refuse = [&](auto&&... why) {
      problem(link, ": the route to ", route.network, " is ignored: ", why...);
    };
    auto parsed = Prefix::parse(route.network);
    if (parsed == nullptr) {
      problem(link, ": the route's network \"", route.network,
              "\" is not a valid prefix; use for example 0.0.0.0/0");
      return;
    }
    NetworkPlan::Route result{kj::str(link), KJ_ASSERT_NONNULL(parsed).masked(), nullptr,
                              route.metric == 0 ? kStaticRouteMetric : route.metric,
                              kLayerConfiguration};
    result.type = route.type;
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
    if (route.type != config::RouteType::UNICAST) {
      result.link = kj::String();
      return add();
    }
    result.mtu = route.mtu;
    result.onlink = route.onlink;
    auto family = result.destination.address.family();
    for (auto text : {kj::StringPtr(route.gateway), kj::StringPtr(route.source)}) {
      if (text.size() == 0) continue;
      KJ_IF_MAYBE (address, Ip::parse(text)) {
        if (address->family() == family) continue;
        return refuse(text, " and its network are not both IPv4 or both IPv6");
      }
      return refuse("\"", text, "\" is not a valid address");
    }
    KJ_IF_MAYBE (gateway, Ip::parse(route.gateway)) {
      if (!gateway->isAny()) result.gateway = *gateway;  // 0.0.0.0 and :: mean: on the link
    }
    KJ_IF_MAYBE (source, Ip::parse(route.source)) result.source = *source;
    add();
  }

  // --- the command line
  // ------------------------------------------------------------------------------
  void addBondsOfCommandLine() {
    for (auto text : arguments.all("bond")) {
      KJ_IF_MAYBE (parameter, parseBondParameter(text, plan.problems)) {
        if (left(parameter->name)) continue;
        auto& bond = addLink(parameter->name, parameter->mtu, kLayerCmdline);
        if (bond.making.kind.size() > 0) continue;  // what the config says
        bond.making.kind = kj::str("bond");
        bond.making.bond = parameter->bond;
        for (auto member : parameter->bond->get().getInterfaces()) {
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
        if (vlan.making.kind.size() > 0) continue;
        vlan.making.kind = kj::str("vlan");
        vlan.making.parent = kj::mv(parameter->parent);
        vlan.making.vlanId = parameter->id;
      }
    }
  }

  // Whether the config or the command line wants the link to be left alone.
  bool left(kj::StringPtr link) const { return ignored(link) || (isNamed(link) && !planned(link)); }
  bool isNamed(kj::StringPtr link) const {
    return std::find(named.begin(), named.end(), link) != named.end();
  }
  bool planned(kj::StringPtr name) const {
    for (auto& link : plan.links) {
      if (link.name == name) return true;
    }
    return false;
  }

  // The link that `ip=` is for; none as long as nobody has told which links there are.
  kj::Maybe<kj::String> linkOfParameter(kj::StringPtr device) const {
    const KnownLink* first = nullptr;
    if (planned(device)) return kj::str(device);
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

  // An entry that says only "ignore" configures as well: it wants the link to be left alone.
  bool configured(kj::StringPtr link) const { return isNamed(link) || planned(link); }

  // A bond or VLAN that only the command line has, on which nothing stands.
  bool asksByItself(const NetworkPlan::Link& link) const {
    if (link.layer != kLayerCmdline || link.making.kind.size() == 0) return false;
    for (auto& other : plan.links) {
      if (other.making.parent == link.name) return false;
    }
    return link.making.master.size() == 0 && !hasAddress(link.name);
  }

  void addDefaultOperators() {
    for (auto& link : plan.links) {
      if (!asksByItself(link)) continue;
      addOperator(kDhcp4, link.name, 0, kLayerCmdline);
      addOperator(kRouters, link.name, 0, kLayerCmdline);
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

  bool taken(const Prefix& destination, unsigned metric, kj::StringPtr link) const {
    for (auto& route : plan.routes) {
      if (route.destination == destination && route.metric == metric && route.link != link) {
        return true;
      }
    }
    return false;
  }

  void addLease(const Lease& lease) {
    if (lease.mtu != 0) addLink(lease.link, lease.mtu, kLayerOperator);
    for (auto& prefix : lease.addresses) {
      addAddress(lease.link, prefix, kLayerOperator);
    }
    auto metric = KJ_ASSERT_NONNULL(operatorOf(lease.link, lease.kind)).metric;
    for (auto& route : lease.routes) {
      // Two links that are given the same destination: the first one's is preferred.
      auto own = metric;
      while (taken(route.destination, own, lease.link)) ++own;
      addRoute({kj::str(lease.link), route.destination, route.gateway, own, kLayerOperator});
    }
  }
};

}  // namespace

NetworkPlan planNetwork(const KernelArguments& arguments, kj::Maybe<const NetworkConfig&> config,
                        kj::ArrayPtr<const KnownLink> known, kj::ArrayPtr<const Lease> leases) {
  return Planner(arguments, config, known, leases).run();
}

}  // namespace talos::machined
