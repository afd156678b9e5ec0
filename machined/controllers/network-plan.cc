#include "machined/controllers/network-plan.h"

#include <algorithm>
#include <tuple>

namespace talos::machined {
namespace {

constexpr size_t kMostResolvers = 3;      // resolv.conf(5)
constexpr size_t kMostSearchDomains = 6;  // what every C library reads
constexpr kj::StringPtr kDefaultTimeServer = "pool.ntp.org"_kj;
constexpr kj::StringPtr kDefaultResolvers[] = {"1.1.1.1"_kj, "8.8.8.8"_kj};

kj::Vector<kj::String> split(kj::StringPtr text, char by) {
  kj::Vector<kj::String> fields;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || text[i] == by) {
      fields.add(kj::heapString(text.begin() + begin, i - begin));
      begin = i + 1;
    }
  }
  return fields;
}

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
    addFromCommandLine();
    dropAddressesOfMembers();
    addDefaultOperators();
    dropStaleLeases();
    for (auto lease : leases) addLease(*lease);
    chooseHostname();
    chooseResolvers();
    chooseSearch();
    chooseTimeServers();
    return kj::mv(plan);
  }

 private:
  const KernelArguments& arguments;
  kj::Maybe<const NetworkConfig&> config;
  kj::ArrayPtr<const KnownLink> known;
  kj::Vector<const Lease*> leases;  // in the order of links, those that count
  kj::Maybe<IpParameter> ip;
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
      problem(link.name, ": it is a ", link.making.kind, " already and cannot be a ", kind, " too");
      return false;
    }
    link.making.kind = kj::str(kind);
    return true;
  }

  void addBond(const NetworkConfig::Device& device) {
    auto& bond = addLink(device.interface, 0, kLayerConfiguration);
    if (!makes(bond, "bond")) return;
    bond.making.bond = device.bond;
    for (auto member : device.bond->get().getInterfaces()) {
      if (ignored(member)) {
        problem(device.interface, ": its link ", member, " is to be ignored and stays out of it");
        continue;
      }
      auto& link = addLink(member, 0, kLayerConfiguration);
      if (link.making.master.size() > 0 && link.making.master != device.interface) {
        problem(device.interface, ": its link ", member, " is in ", link.making.master, " already");
      } else {
        link.making.master = kj::str(device.interface);
      }
    }
  }

  void addVlan(kj::StringPtr parent, const NetworkConfig::Vlan& vlan) {
    KJ_IF_MAYBE (name, vlanName(parent, vlan.id)) {
      auto& link = addLink(*name, 0, kLayerConfiguration);
      if (!makes(link, "vlan")) return;
      link.making.parent = kj::str(parent);
      link.making.vlanId = vlan.id;
      addAddresses(*name, vlan.addresses);
      for (auto& route : vlan.routes) addConfigRoute(*name, route);
      if (vlan.dhcp4) addOperator(kDhcp4, *name, 0, kLayerConfiguration);
      if (vlan.dhcp4 || vlan.addresses.size() == 0) {
        addOperator(kRouters, *name, 0, kLayerConfiguration);
      }
    } else {
      problem(parent, ": the name of its VLAN ", vlan.id, ", ", parent, ".", vlan.id,
              ", would have more than 15 characters");
    }
  }

  void addAddresses(kj::StringPtr link, const kj::Vector<kj::String>& texts) {
    for (auto& text : texts) {
      KJ_IF_MAYBE (prefix, prefixOf(text)) {
        plan.addresses.add(NetworkPlan::Address{kj::str(link), *prefix, kLayerConfiguration});
      } else {
        problem(link, ": cidr \"", text,
                "\" is not an address with a prefix length, as 10.5.0.2/24");
      }
    }
  }

  // What the link belongs to; empty: nothing.
  kj::StringPtr masterOf(kj::StringPtr name) const {
    for (auto& link : plan.links) {
      if (link.name == name) return link.making.master;
    }
    return "";
  }

  // The bond has the addresses.
  void dropAddressesOfMembers() {
    kj::Vector<NetworkPlan::Address> addresses;
    for (auto& address : plan.addresses) {
      auto master = masterOf(address.link);
      if (master.size() == 0) {
        addresses.add(kj::mv(address));
      } else {
        problem(address.link, ": it is part of ", master, " and cannot have the address ",
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
        problem(asked.link, ": it is part of ", master, " and is not asked for by DHCP");
      }
    }
    plan.operators = kj::mv(operators);
  }

  void addRoute(NetworkPlan::Route route) {
    for (auto& other : plan.routes) {
      if (other.link == route.link && other.destination == route.destination &&
          other.metric == route.metric) {
        return;
      }
    }
    plan.routes.add(kj::mv(route));
  }

  void addDevice(const NetworkConfig::Device& device) {
    if (device.ignore || ignored(device.interface)) return;
    if (device.interface.size() == 0) {
      problem("machine.network.interfaces: an entry without `interface` configures nothing");
      return;
    }
    addLink(device.interface, device.mtu, kLayerConfiguration);
    if (device.bond != nullptr) addBond(device);
    if (device.wireguard != nullptr) addTunnel(device);
    if (device.dummy) makes(addLink(device.interface, 0, kLayerConfiguration), "dummy");
    addAddresses(device.interface, device.addresses);
    for (auto& route : device.routes) addConfigRoute(device.interface, route);
    if (device.dhcp4) addOperator(kDhcp4, device.interface, device.dhcpMetric, kLayerConfiguration);
    if (device.dhcp6) addOperator(kDhcp6, device.interface, device.dhcpMetric, kLayerConfiguration);
    // Where routers may give the address, they may give resolvers too.
    bool asks = device.dhcp4 || device.dhcp6 || device.addresses.size() == 0;
    if (asks && device.wireguard == nullptr)
      addOperator(kRouters, device.interface, device.dhcpMetric, kLayerConfiguration);
    for (auto& vlan : device.vlans) addVlan(device.interface, vlan);
  }

  void addTunnel(const NetworkConfig::Device& device) {
    auto& link = addLink(device.interface, 0, kLayerConfiguration);
    if (!makes(link, "wireguard")) return;
    link.making.wireguard = device.wireguard;
    if (device.wireguard->privateKey == nullptr) {
      problem(device.interface, ": its private key is not the base64 of 32 octets");
    }
  }

  void addConfigRoute(kj::StringPtr link, const NetworkConfig::Route& route) {
    auto destination = Prefix::parse(route.network);
    auto gateway = Ip::parse(route.gateway);
    if (route.gateway.size() > 0 && gateway == nullptr) {
      problem(link, ": the gateway \"", route.gateway, "\" of the route to ", route.network,
              " is not an address");
      return;
    }
    KJ_IF_MAYBE (g, gateway) {
      if (g->isAny()) gateway = nullptr;  // 0.0.0.0 and :: mean: on the link
    }
    KJ_IF_MAYBE (d, destination) {
      KJ_IF_MAYBE (g, gateway) {
        if (g->family() != d->address.family()) {
          problem(link, ": the gateway ", route.gateway, " and the route's network ", route.network,
                  " are not of one family");
          return;
        }
      }
      addRoute({kj::str(link), d->masked(), gateway,
                route.metric == 0 ? kStaticRouteMetric : route.metric, kLayerConfiguration});
    } else {
      problem(link, ": the route's network \"", route.network, "\" is not a prefix, as 0.0.0.0/0");
    }
  }

  // The link that `ip=` is for; none as long as nobody has told which links there are.
  kj::Maybe<kj::String> linkOfParameter(kj::StringPtr device) const {
    const KnownLink* first = nullptr;
    for (auto& link : known) {
      if (link.name == device) return kj::str(device);
      if (!link.loopback && !ignored(link.name) && (first == nullptr || link.index < first->index))
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
        plan.addresses.add(NetworkPlan::Address{kj::str(*link), parameter->address, kLayerCmdline});
        KJ_IF_MAYBE (gateway, parameter->gateway) {
          addRoute(
              {kj::mv(*link), Prefix::all(AF_INET), *gateway, kStaticRouteMetric, kLayerCmdline});
        }
      }
    }
  }

  // An entry that says only "ignore" configures as well: it wants the link to be left alone.
  bool configured(kj::StringPtr link) const {
    KJ_IF_MAYBE (c, config) {
      for (auto& device : c->devices) {
        if (device.interface == link) return true;
      }
    }
    for (auto& planned : plan.links) {
      if (planned.name == link) return true;
    }
    return false;
  }

  void addDefaultOperators() {
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
      bool there = false;
      for (auto& other : plan.addresses) {
        there = there || (other.link == lease.link && other.prefix == prefix);
      }
      if (there) continue;
      plan.addresses.add(NetworkPlan::Address{kj::str(lease.link), prefix, kLayerOperator});
    }
    auto metric = KJ_ASSERT_NONNULL(operatorOf(lease.link, lease.kind)).metric;
    for (auto& route : lease.routes) {
      // Two links that are given the same destination: the first one's is preferred.
      auto own = metric;
      while (taken(route.destination, own, lease.link)) ++own;
      addRoute({kj::str(lease.link), route.destination, route.gateway, own, kLayerOperator});
    }
  }

  bool takeHostname(kj::StringPtr name, kj::StringPtr source, kj::StringPtr layer) {
    if (name.size() == 0) return false;
    KJ_IF_MAYBE (reason, hostnameProblem(name)) {
      problem(source, ": \"", name, "\" cannot be the host name: ", *reason);
      return false;
    }
    KJ_IF_MAYBE (dot, name.findFirst('.')) {
      plan.hostname = kj::heapString(name.begin(), *dot);
      plan.domain = kj::str(name.slice(*dot + 1));
    } else {
      plan.hostname = kj::str(name);
    }
    plan.hostnameLayer = layer;
    return true;
  }

  void chooseHostname() {
    KJ_IF_MAYBE (c, config) {
      if (takeHostname(c->hostname, "machine.network.hostname", kLayerConfiguration)) return;
    }
    if (takeHostname(arguments.first("talos.hostname").orDefault(""),
                     "talos.hostname=", kLayerCmdline))
      return;
    KJ_IF_MAYBE (parameter, ip) {
      if (takeHostname(parameter->hostname, "ip=", kLayerCmdline)) return;
    }
    for (auto lease : leases) {
      bool whole = lease->hostname.findFirst('.') != nullptr || lease->domain.size() == 0;
      auto name = whole ? kj::str(lease->hostname) : kj::str(lease->hostname, ".", lease->domain);
      if (lease->hostname.size() > 0 &&
          takeHostname(name, kj::str("DHCP on ", lease->link), kLayerOperator)) {
        return;
      }
    }
    for (auto& address : plan.addresses) {
      if (address.prefix.address.family() != AF_INET) continue;
      auto name = kj::str("talos-", address.prefix.address);
      std::replace(name.begin(), name.end(), '.', '-');
      takeHostname(name, "", kLayerDefault);
      return;
    }
    // Before there is a config it would be a name that is taken back in a moment.
    if (config != nullptr) takeHostname("talos-127-0-1-1", "", kLayerDefault);
  }

  void chooseResolvers() {
    auto take = [&](Ip address, kj::StringPtr layer) {
      if (plan.resolvers.size() == kMostResolvers) return;
      auto& list = plan.resolvers;
      if (std::find(list.begin(), list.end(), address) == list.end()) list.add(address);
      plan.resolversLayer = layer;
    };
    KJ_IF_MAYBE (c, config) {
      for (auto& text : c->nameservers) {
        KJ_IF_MAYBE (address, Ip::parse(text)) {
          take(*address, kLayerConfiguration);
        } else {
          problem("machine.network.nameservers: \"", text, "\" is not an IP address");
        }
      }
    }
    if (plan.resolvers.size() > 0) return;
    for (auto lease : leases) {
      for (auto& address : lease->resolvers) take(address, kLayerOperator);
    }
    if (plan.resolvers.size() > 0) return;
    KJ_IF_MAYBE (parameter, ip) {
      for (auto& address : parameter->resolvers) take(address, kLayerCmdline);
    }
    if (plan.resolvers.size() > 0) return;
    for (auto text : kDefaultResolvers) take(KJ_ASSERT_NONNULL(Ip::parse(text)), kLayerDefault);
  }

  // The machine's own domain first.
  void chooseSearch() {
    auto take = [&](kj::StringPtr domain) {
      bool there = std::find(plan.search.begin(), plan.search.end(), domain) != plan.search.end();
      if (there || domain.size() == 0 || plan.search.size() == kMostSearchDomains) return;
      plan.search.add(kj::str(domain));
    };
    take(plan.domain);
    for (auto lease : leases) {
      for (auto& domain : lease->search) take(domain);
      if (lease->search.size() == 0) take(lease->domain);
    }
  }

  void chooseTimeServers() {
    auto take = [&](kj::StringPtr server, kj::StringPtr layer) {
      if (std::find(plan.timeServers.begin(), plan.timeServers.end(), server) ==
          plan.timeServers.end()) {
        plan.timeServers.add(kj::str(server));
      }
      plan.timeServersLayer = layer;
    };
    KJ_IF_MAYBE (c, config) {
      for (auto& server : c->timeServers) take(server, kLayerConfiguration);
    }
    if (plan.timeServers.size() > 0) return;
    for (auto lease : leases) {
      for (auto& server : lease->timeServers) take(server, kLayerOperator);
    }
    if (plan.timeServers.size() == 0) take(kDefaultTimeServer, kLayerDefault);
  }
};

}  // namespace

NetworkPlan planNetwork(const KernelArguments& arguments, kj::Maybe<const NetworkConfig&> config,
                        kj::ArrayPtr<const KnownLink> known, kj::ArrayPtr<const Lease> leases) {
  return Planner(arguments, config, known, leases).run();
}

kj::Maybe<IpParameter> parseIpParameter(kj::StringPtr text, kj::Vector<kj::String>& problems) {
  auto fields = split(text, ':');
  if (fields.size() < 4) return nullptr;
  auto field = [&](size_t i) { return i < fields.size() ? kj::StringPtr(fields[i]) : ""_kj; };
  auto refuse = [&](auto&&... why) -> kj::Maybe<IpParameter> {
    problems.add(kj::str("ip=", text, ": ", why...));
    return nullptr;
  };
  auto client = Ip::parse(field(0));
  KJ_IF_MAYBE (c, client) {
    if (c->family() != AF_INET || c->isAny() || c->isMulticast() || c->isLoopback()) {
      return refuse("\"", field(0), "\" cannot be the machine's IPv4 address");
    }
    auto length = maskLength(field(3));
    if (length == nullptr) return refuse("\"", field(3), "\" is not a netmask, as 255.255.255.0");
    IpParameter result{
        Prefix{*c, KJ_ASSERT_NONNULL(length)}, nullptr, kj::str(field(4)), kj::str(field(5)), {}};
    if (field(2).size() > 0) {
      auto gateway = Ip::parse(field(2));
      KJ_IF_MAYBE (g, gateway) {
        if (g->family() == AF_INET && !g->isAny()) result.gateway = *g;
      } else {
        problems.add(
            kj::str("ip=", text, ": the gateway \"", field(2), "\" is not an IPv4 address"));
      }
    }
    for (size_t i = 7; i <= 8; ++i) {
      KJ_IF_MAYBE (resolver, Ip::parse(field(i))) {
        if (!resolver->isAny()) result.resolvers.add(*resolver);
      }
    }
    return kj::mv(result);
  }
  return refuse("\"", field(0), "\" is not an IPv4 address");
}

kj::Maybe<kj::String> hostnameProblem(kj::StringPtr name) {
  if (name.size() > 253) return kj::str("it has ", name.size(), " characters; 253 are allowed");
  for (auto& label : split(name, '.')) {
    if (label.size() == 0) return kj::str("there is nothing before, between or behind its dots");
    if (label.size() > 63)
      return kj::str("a part of it has ", label.size(), " characters; 63 are allowed");
    for (char c : label) {
      bool ok =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
      if (!ok) return kj::str("only letters, digits, '-' and '.' are allowed");
    }
    if (label[0] == '-' || label[label.size() - 1] == '-') {
      return kj::str("no part of it begins or ends with '-'");
    }
  }
  return nullptr;
}

}  // namespace talos::machined
