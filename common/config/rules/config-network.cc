// machine.network: names, links, addresses and routes.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "common/config/kubernetes/cluster-networks.h"
#include "common/config/rules/config-check.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"

namespace talos::config {
namespace {

constexpr unsigned kSmallestMtu = 68, kLargestMtu = 65536;
constexpr unsigned kLargestRouteMtu = 65520;  // the kernel takes larger ones for this
constexpr unsigned kUsualMtu = 1500;          // of a link for which no config sets one
constexpr unsigned kLargestVlan = 4094;
constexpr size_t kUsedNameservers = 3;

constexpr size_t kLongestLinkName = 15;

constexpr unsigned kUsualMetric = 10;  // of a route without a metric

// Values that must be unique over all links.
struct Taken {
  std::map<std::string, std::set<unsigned>> vlans;  // by the parent's name
  std::map<std::string, unsigned> mtus;             // by the link's name (mtusOf)
  // By network, metric and table.
  std::map<std::tuple<std::string, unsigned, unsigned>, std::string> routes;
  std::map<Ip, std::string> addresses;  // of this node; where they are
  struct Shared {
    std::string place;
    bool selected;
  };
  std::map<Ip, Shared> shared;
  bool selected = false;  // the link at hand: another selector may be for another machine's link
};

void checkMtu(Report& report, kj::StringPtr path, unsigned mtu) {
  if (mtu != 0 && (mtu < kSmallestMtu || mtu > kLargestMtu)) {
    report.warn(kj::str(path, ".mtu"), kj::str("not a valid MTU of a link: ", mtu),
                "must be 68 to 65536");
  }
}

// Refuses the keys that only a unicast route has.
void checkNowhere(Report& report, kj::StringPtr path, Route::Reader route) {
  auto only = [&](kj::StringPtr key, bool given) {
    if (!given) return;
    report.error(kj::str(path, ".", key),
                 kj::str("a route of this type discards packets and cannot have this"),
                 "remove this key or the type");
  };
  only("gateway", route.getGateway().size() > 0);
  only("source", route.getSource().size() > 0);
  only("mtu", route.getMtu() != 0);
  only("onlink", route.getOnlink());
}

void checkHop(Report& report, kj::StringPtr path, Route::Reader route, int family) {
  if (route.getSource().size() > 0) {
    auto place = kj::str(path, ".source");
    KJ_IF_MAYBE (source, Ip::parse(route.getSource())) {
      if (family != AF_UNSPEC && source->family() != family)
        report.laterError(place, kj::str("source and network are not both IPv4 or both IPv6"));
    } else {
      report.error(
          place, kj::str("\"", route.getSource(), "\" is not an IP address"),
          Prefix::parse(route.getSource()) == nullptr ? "" : "leave out the prefix length");
    }
  }
  auto mtu = route.getMtu();
  if (mtu != 0 && (mtu < kSmallestMtu || mtu > kLargestRouteMtu)) {
    report.error(kj::str(path, ".mtu"), kj::str("not a valid MTU of a route: ", mtu),
                 "must be 68 to 65520");
  }
  auto place = kj::str(path, ".gateway");
  bool hasGateway = false;
  KJ_IF_MAYBE (gateway, Ip::parse(route.getGateway())) {
    hasGateway = !gateway->isAny();
    if (family != AF_UNSPEC && gateway->family() != family) {
      report.laterError(place, kj::str("gateway and network are not both IPv4 or both IPv6"));
    } else if (hasGateway && (!gateway->isUnicast() || gateway->isLoopback())) {
      report.laterError(place, kj::str(*gateway, " cannot be the address of a gateway"),
                        "use the address of a router in a network of the link");
    }
  } else if (route.getGateway().size() > 0) {
    report.laterError(
        place, kj::str("\"", route.getGateway(), "\" is not an IP address"),
        Prefix::parse(route.getGateway()) == nullptr ? "" : "leave out the prefix length");
    return;
  }
  if (route.getOnlink() && !hasGateway) {
    report.error(kj::str(path, ".onlink"), kj::str("onlink has no effect without a gateway"),
                 "set gateway or remove onlink");
  }
}

void checkPlace(Report& report, kj::StringPtr path, const Prefix& destination, Route::Reader route,
                Taken& taken) {
  auto metric = route.getMetric() == 0 ? kUsualMetric : route.getMetric();
  auto [there, added] = taken.routes.try_emplace(
      {destination.toString().cStr(), metric, route.getTable()}, path.cStr());
  if (added) return;
  report.warn(kj::str(path, ".network"),
              kj::str(there->second.c_str(), " has the same network and metric (", metric,
                      "); only one of them is used"),
              "set another metric");
}

// Reports the reason why a route has no destination.
void checkNoDestination(Report& report, kj::StringPtr path, Route::Reader route) {
  if (route.getNetwork().size() > 0) {
    report.laterError(
        kj::str(path, ".network"), kj::str("\"", route.getNetwork(), "\" is not a valid network"),
        "use address/length, for example 10.0.0.0/8, or 0.0.0.0/0 for the default route");
  } else if (!report.isWhollyRead(path)) {
    return;  // the decoder may have refused the network
  } else if (route.getType() != RouteType::UNICAST) {
    report.laterError(path, kj::str("a route of this type needs a network"),
                      "set network, for example to 10.0.0.0/8");
  } else if (route.getGateway().size() == 0) {
    report.laterError(path, kj::str("the route has neither a network nor a gateway"),
                      "set network, or gateway alone for the default route");
  }
}

void checkRoute(Report& report, kj::StringPtr path, Route::Reader route, Taken& taken) {
  int family = AF_UNSPEC;
  KJ_IF_MAYBE (destination, destinationOf(route)) {
    family = destination->address.family();
    checkPlace(report, path, *destination, route, taken);
  } else {
    checkNoDestination(report, path, route);
  }
  if (route.getType() == RouteType::UNICAST) {
    checkHop(report, path, route, family);
  } else {
    checkNowhere(report, path, route);
  }
}

void checkRoutes(Report& report, kj::StringPtr path, Taken& taken,
                 capnp::List<Route>::Reader routes) {
  size_t i = 0;
  for (auto route : routes) checkRoute(report, kj::str(path, ".routes[", i++, "]"), route, taken);
}

// Earlier releases accepted any text, and used a DUID of the hardware address.
template <typename Reader>
void checkDuid(Report& report, kj::StringPtr place, Reader link) {
  kj::StringPtr duid = link.getDhcpOptions().getDuidv6();
  if (duid.size() == 0) return;
  if (parseDuid(duid) == nullptr) {
    report.laterError(place, kj::str("\"", duid, "\" is not a DUID"), kDuidForm);
  }
}

// Checks further addresses of a link or a VLAN.
template <typename Reader>
void checkFurther(Report& report, kj::StringPtr path, Reader link, Taken& taken) {
  auto take = [&](kj::StringPtr place, kj::StringPtr text) {
    KJ_IF_MAYBE (prefix, Prefix::parse(text)) taken.addresses[prefix->address] = place.cStr();
    KJ_IF_MAYBE (address, Ip::parse(text)) taken.addresses[*address] = place.cStr();
  };
  take(kj::str(path, ".cidr"), link.getCidr());
  size_t i = 0;
  for (auto address : link.getAddresses()) {
    auto place = kj::str(path, ".addresses[", i++, "]");
    if (Ip::parse(address) == nullptr) report.cidr(place, address);
    take(place, address);
  }
  if (!link.hasDhcpOptions()) return;
  auto place = kj::str(path, ".dhcpOptions");
  checkDuid(report, kj::str(place, ".duidv6"), link);
  if (!link.getDhcp()) {
    report.warn(place, kj::str("these have no effect without dhcp: true"));
  } else if (!link.getDhcpOptions().getIpv4() && !link.getDhcpOptions().getIpv6()) {
    report.warn(place, kj::str("ipv4 and ipv6 are both off: DHCP does nothing"));
  }
}

void checkSharedAddress(Report& report, kj::StringPtr place, const Ip& address, Taken& taken) {
  if (!address.isUnicast() || address.isLoopback()) {
    report.laterError(place, kj::str(address, " cannot be the address of a machine on its network"),
                      "use an address of the link's network that no machine has");
    return;
  }
  auto [there, added] =
      taken.shared.try_emplace(address, Taken::Shared{place.cStr(), taken.selected});
  if (added || taken.selected || there->second.selected) return;
  report.laterError(place,
                    kj::str(there->second.place.c_str(), " is the same shared address, ", address),
                    "remove one of the two: a shared address is on one link");
}

// The token is the value of an HTTP header.
void checkHcloud(Report& report, kj::StringPtr place, HcloudVip::Reader hcloud) {
  if (hcloud.getApiToken().size() == 0) {
    report.laterError(place, kj::str("the API token is missing"),
                      "make one with permission to read and write in the project of the servers");
  } else if (!isVisible(hcloud.getApiToken())) {
    report.laterError(place, kj::str("must be visible ASCII characters"));
  }
}

void checkVip(Report& report, kj::StringPtr path, Vip::Reader vip, MachineType type, Taken& taken) {
  if (!isControlPlane(type)) {
    report.error(path, kj::str("only control-plane nodes can have a shared address"),
                 "remove vip, or set machine.type to controlplane");
  }
  auto place = kj::str(path, ".ip");
  if (vip.getIp().size() == 0) {
    report.error(place, kj::str("the shared address is missing"));
  } else KJ_IF_MAYBE (address, Ip::parse(vip.getIp())) {
    checkSharedAddress(report, place, *address, taken);
  } else {
    report.error(place, kj::str("\"", vip.getIp(), "\" is not an IP address"),
                 Prefix::parse(vip.getIp()) == nullptr ? "" : "leave out the prefix length");
  }
  if (vip.hasHcloud()) checkHcloud(report, kj::str(path, ".hcloud.apiToken"), vip.getHcloud());
  if (vip.getLeaseTTL().size() == 0) return;
  auto ttl = parseDuration(vip.getLeaseTTL());
  bool fits = false;
  KJ_IF_MAYBE (t, ttl) fits = *t >= kShortestVipLease && *t <= kLongestVipLease;
  if (!fits) {
    report.error(kj::str(path, ".leaseTTL"),
                 kj::str("\"", vip.getLeaseTTL(), "\" is not a valid lease time"), "use 2s to 60s");
  }
}

// Returns the MTUs by the links' names. A link whose MTU is that of other links, or is set by
// another program or by DHCP, has the largest. A link with the usual MTU is not in the map.
std::map<std::string, unsigned> mtusOf(Network::Reader network) {
  std::map<std::string, unsigned> mtus, unknown;
  for (auto interface : network.getInterfaces()) {
    std::string name = interface.getInterface().cStr();
    bool follows = interface.getIgnore() || interface.hasBridge() || interface.hasTaggedOn() ||
                   interface.getDhcp();
    bool set = interface.getMtu() != 0 && !interface.getIgnore();
    if (set) mtus.emplace(name, interface.getMtu());
    if (follows) unknown.emplace(name, kLargestMtu);
    for (auto vlan : interface.getVlans()) {
      auto link = name + "." + std::to_string(vlan.getVlanId());
      mtus.emplace(link, vlan.getMtu() != 0 ? vlan.getMtu() : kLargestMtu);
    }
  }
  mtus.merge(unknown);
  return mtus;
}

// Reports a VLAN with a larger MTU than its parent, which the kernel refuses.
void checkVlanMtu(Report& report, kj::StringPtr path, unsigned mtu, kj::StringPtr parent,
                  kj::Maybe<unsigned> parentMtu) {
  auto place = kj::str(path, ".mtu");
  KJ_IF_MAYBE (most, parentMtu) {
    if (mtu <= *most) return;
    // Earlier releases did not compare the VLANs of one entry with the MTU of another one.
    report.laterError(place, kj::str(mtu, " is more than the MTU of ", parent, " (", *most, ")"));
  } else if (mtu > kUsualMtu) {
    report.warn(place,
                kj::str(mtu,
                        " is more than the usual MTU of a link (1500), and a VLAN has at most "
                        "the MTU of its parent"),
                kj::str("set mtu of ", parent, ", too"));
  }
}

kj::Maybe<unsigned> mtuOf(const Taken& taken, kj::StringPtr link) {
  auto found = taken.mtus.find(link.cStr());
  if (found == taken.mtus.end()) return nullptr;
  return found->second;
}

void checkVlan(Report& report, kj::StringPtr path, Vlan::Reader vlan, kj::Maybe<unsigned> parentMtu,
               MachineType type, Taken& taken) {
  if (vlan.getCidr().size() > 0) report.cidr(kj::str(path, ".cidr"), vlan.getCidr());
  checkFurther(report, path, vlan, taken);
  checkMtu(report, path, vlan.getMtu());
  checkVlanMtu(report, path, vlan.getMtu(), "the parent link", parentMtu);
  checkRoutes(report, path, taken, vlan.getRoutes());
  if (vlan.hasVip()) checkVip(report, kj::str(path, ".vip"), vlan.getVip(), type, taken);
}

void checkVlans(Report& report, kj::StringPtr parent, Interface::Reader interface, MachineType type,
                Taken& taken) {
  // Two selectors may choose one link; this is known only when the links exist.
  std::set<unsigned> own;
  auto name = interface.getInterface();
  auto& seen = name.size() > 0 ? taken.vlans[name.cStr()] : own;
  kj::Maybe<unsigned> mtu;
  if (name.size() > 0) {
    mtu = mtuOf(taken, name);
  } else if (interface.getMtu() != 0) {
    mtu = interface.getMtu();
  } else if (interface.getDhcp()) {
    mtu = kLargestMtu;
  }
  size_t i = 0;
  for (auto vlan : interface.getVlans()) {
    auto path = kj::str(parent, ".vlans[", i++, "]");
    auto place = kj::str(path, ".vlanId");
    if (vlan.getVlanId() > kLargestVlan) {
      report.error(place, kj::str(vlan.getVlanId(), " is not a valid VLAN ID"),
                   "must be 0 to 4094");
    } else if (report.has(place) && !seen.insert(vlan.getVlanId()).second) {
      report.error(place, kj::str("VLAN ", vlan.getVlanId(), " is a duplicate on this link"));
    }
    auto link = kj::str(name, ".", vlan.getVlanId());
    if (isLinkName(name) && link.size() > kLongestLinkName) {
      report.warn(place, kj::str("the VLAN is not made: the name of its link, ", link,
                                 ", has more than 15 characters"));
    }
    checkVlan(report, path, vlan, mtu, type, taken);
  }
}

// Returns true if the entry makes its link.
bool isMade(Interface::Reader interface) {
  return interface.hasBond() || interface.hasBridge() || interface.hasWireguard() ||
         interface.getDummy() || interface.hasVrf() || interface.hasVeth();
}

// Checks a VLAN whose name is its own.
void checkTag(Report& report, kj::StringPtr path, Interface::Reader interface, Taken& taken) {
  auto tag = interface.getTaggedOn();
  auto parent = tag.getParent();
  if (parent == interface.getInterface()) {
    report.error(kj::str(path, ".taggedOn.parent"), kj::str("a VLAN cannot be its own parent"),
                 "use the name of another link");
    return;
  }
  // The kernel tells the IDs of the two protocols apart. No link has a slash in its name.
  bool service = tag.getProtocol() == "802.1ad";
  auto& seen = taken.vlans[kj::str(parent, service ? "/802.1ad" : "").cStr()];
  if (!seen.insert(tag.getVlanId()).second) {
    report.error(kj::str(path, ".taggedOn.vlanId"),
                 kj::str("VLAN ", tag.getVlanId(), " is a duplicate on this link"));
  }
  checkVlanMtu(report, path, interface.getMtu(), parent, mtuOf(taken, parent));
}

void checkAddressing(Report& report, kj::StringPtr path, Interface::Reader interface,
                     Taken& taken) {
  if (interface.getDhcp() && interface.getCidr().size() > 0)
    report.error(kj::str(path, ".dhcp"), kj::str("cidr is set as well"), "remove one of the two");
  if (interface.getCidr().size() > 0) report.cidr(kj::str(path, ".cidr"), interface.getCidr());
  checkFurther(report, path, interface, taken);
}

void checkSelector(Report& report, kj::StringPtr path, Interface::Reader interface) {
  auto place = kj::str(path, ".deviceSelector");
  if (interface.getInterface().size() > 0)
    report.error(place, kj::str("interface is set as well"), "remove one of the two");
  checkDeviceSelector(report, place, interface.getDeviceSelector());
  if (isMade(interface)) {
    report.error(place, kj::str("a virtual link cannot be selected"), "use interface to name it");
  }
}

void checkName(Report& report, kj::StringPtr path, Interface::Reader interface) {
  auto name = interface.getInterface();
  if (interface.hasDeviceSelector()) {
    checkSelector(report, path, interface);
  } else if (name.size() == 0) {
    report.error(kj::str(path, ".interface"), kj::str("link name is missing"),
                 "set interface or deviceSelector");
  } else if (!isLinkName(name)) {
    report.error(kj::str(path, ".interface"), kj::str("\"", name, "\" is not a valid link name"),
                 "use 1 to 15 characters without /, : and blanks");
  }
}

void checkInterface(Report& report, kj::StringPtr path, Interface::Reader interface,
                    MachineType type, Taken& taken) {
  checkName(report, path, interface);
  checkAddressing(report, path, interface, taken);
  checkMtu(report, path, interface.getMtu());
  checkRoutes(report, path, taken, interface.getRoutes());
  checkVlans(report, path, interface, type, taken);
  if (interface.hasTaggedOn()) checkTag(report, path, interface, taken);
  if (interface.hasBond() + interface.hasBridge() + interface.hasWireguard() +
          interface.getDummy() >
      1) {
    report.error(path, kj::str("a link can be only one of bond, bridge, dummy and wireguard"));
  }
  if (interface.hasBond()) checkBond(report, kj::str(path, ".bond"), interface.getBond());
  if (interface.hasWireguard())
    checkWireguard(report, kj::str(path, ".wireguard"), interface.getWireguard());
  if (interface.hasVip()) checkVip(report, kj::str(path, ".vip"), interface.getVip(), type, taken);
}

// Reports a node's own address that is shared: another node would take it over, and both would have
// it.
void checkShared(Report& report, const Taken& taken) {
  for (auto& [address, shared] : taken.shared) {
    auto own = taken.addresses.find(address);
    if (own == taken.addresses.end()) continue;
    report.laterError(shared.place.c_str(),
                      kj::str(own->second.c_str(), " gives this node the same address, ", address),
                      "use an address that no machine has");
  }
}

// Reports links that exist only if the config makes them, and that no entry makes.
void checkMade(Report& report, Network::Reader network) {
  struct Kind {
    kj::StringPtr prefix, key;
  };
  constexpr Kind kKinds[] = {{"br"_kj, "bridge"_kj}, {"wg"_kj, "wireguard"_kj}};
  std::set<std::string> made;
  for (auto interface : network.getInterfaces()) {
    if (isMade(interface)) made.insert(interface.getInterface().cStr());
  }
  size_t i = 0;
  for (auto interface : network.getInterfaces()) {
    auto place = kj::str("machine.network.interfaces[", i++, "].interface");
    kj::StringPtr name = interface.getInterface();
    if (interface.getIgnore() || made.contains(name.cStr())) continue;
    for (auto& kind : kKinds) {
      if (!name.startsWith(kind.prefix)) continue;
      if (name.slice(kind.prefix.size()).tryParseAs<unsigned>() == nullptr) continue;
      report.warn(place, kj::str("\"", name, "\" does not exist unless this entry makes it"),
                  kj::str("add ", kind.key));
    }
  }
}

void checkHostEntries(Report& report, capnp::List<HostEntry>::Reader entries) {
  size_t i = 0;
  for (auto entry : entries) {
    auto path = kj::str("machine.network.extraHostEntries[", i++, "]");
    if (entry.getIp().size() == 0) {
      report.error(kj::str(path, ".ip"), kj::str("the address is missing"));
    } else if (Ip::parse(entry.getIp()) == nullptr) {
      report.error(kj::str(path, ".ip"), kj::str("\"", entry.getIp(), "\" is not an IP address"));
    }
    if (entry.getAliases().size() == 0)
      report.warn(kj::str(path, ".aliases"),
                  kj::str("the address has no name; the entry is ignored"));
    size_t j = 0;
    for (auto alias : entry.getAliases()) {
      auto place = kj::str(path, ".aliases[", j++, "]");
      if (!isDnsName(alias)) report.error(place, kj::str("\"", alias, "\" is not a host name"));
    }
  }
}

// Earlier releases accepted every DNS name, such as Bad_Name, and the node left it out.
void checkHostname(Report& report, kj::StringPtr name) {
  constexpr kj::StringPtr kPath = "machine.network.hostname"_kj;
  constexpr kj::StringPtr kRule =
      "use labels of at most 63 letters, digits and dashes, 253 characters in all"_kj;
  if (name.size() == 0 || hostNameProblem(name) == nullptr) return;
  auto message = kj::str("\"", name, "\" is not a host name");
  if (isDnsName(name)) return report.laterError(kPath, kj::mv(message), kRule);
  report.error(kPath, kj::mv(message), kRule);
}

}  // namespace

void checkNetwork(Report& report, Network::Reader network, MachineType type) {
  checkHostname(report, network.getHostname());
  size_t i = 0;
  for (auto nameserver : network.getNameservers()) {
    auto path = kj::str("machine.network.nameservers[", i++, "]");
    if (Ip::parse(nameserver) == nullptr)
      report.error(path, kj::str("\"", nameserver, "\" is not an IP address"));
  }
  if (network.getNameservers().size() > kUsedNameservers)
    report.warn("machine.network.nameservers", kj::str("only the first three are used"));
  Taken taken;
  taken.mtus = mtusOf(network);
  i = 0;
  for (auto interface : network.getInterfaces()) {
    auto path = kj::str("machine.network.interfaces[", i++, "]");
    taken.selected = interface.hasDeviceSelector();
    if (!interface.getIgnore()) {
      checkInterface(report, path, interface, type, taken);
    } else if (interface.hasDeviceSelector()) {
      checkSelector(report, path, interface);  // it is for all that are like that
    } else if (interface.hasVip()) {
      // Another program configures the link, but the shared address is still the node's.
      checkVip(report, kj::str(path, ".vip"), interface.getVip(), type, taken);
    }
  }
  checkRoutes(report, "machine.network", taken, network.getRoutes());
  checkMembers(report, network);
  checkShared(report, taken);
  checkGateways(report, network);
  checkMade(report, network);
  checkHostEntries(report, network.getExtraHostEntries());
  checkFirewall(report, network.getFirewall());
}

}  // namespace talos::config
