// machine.network: names, links, addresses and routes.

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "common/config-check.h"
#include "common/config-value.h"
#include "common/config.h"
#include "common/ip.h"

namespace talos::config {
namespace {

constexpr unsigned kSmallestMtu = 68, kLargestMtu = 65536;
constexpr unsigned kLargestVlan = 4094;
constexpr size_t kUsedNameservers = 3;

using VlanIds = std::map<std::string, std::set<unsigned>>;  // by the parent's name

void checkRoute(Report& report, kj::StringPtr path, Route::Reader route) {
  int family = AF_UNSPEC;
  KJ_IF_MAYBE (network, Prefix::parse(route.getNetwork())) {
    family = network->address.family();
  } else {
    report.warn(kj::str(path, ".network"),
                kj::str("\"", route.getNetwork(), "\" is no network; the route is left out"),
                "address/length, as 10.0.0.0/8; 0.0.0.0/0 is the default route");
  }
  if (route.getGateway().size() == 0) return;
  KJ_IF_MAYBE (gateway, Ip::parse(route.getGateway())) {
    if (family != AF_UNSPEC && gateway->family() != family) {
      report.warn(kj::str(path, ".gateway"),
                  kj::str("gateway and network are not both IPv4 or both IPv6"));
    }
  } else {
    report.warn(kj::str(path, ".gateway"),
                kj::str("\"", route.getGateway(), "\" is not an IP address"));
  }
}

void checkRoutes(Report& report, kj::StringPtr path, capnp::List<Route>::Reader routes) {
  size_t i = 0;
  for (auto route : routes) checkRoute(report, kj::str(path, ".routes[", i++, "]"), route);
}

void checkVlans(Report& report, kj::StringPtr parent, Interface::Reader interface, VlanIds& ids) {
  auto& seen = ids[interface.getInterface().cStr()];
  size_t i = 0;
  for (auto vlan : interface.getVlans()) {
    auto path = kj::str(parent, ".vlans[", i++, "]");
    auto place = kj::str(path, ".vlanId");
    if (vlan.getVlanId() > kLargestVlan) {
      report.error(place, kj::str(vlan.getVlanId(), " is not a VLAN"), "it is from 0 to 4094");
    } else if (report.has(place) && !seen.insert(vlan.getVlanId()).second) {
      report.error(place, kj::str("VLAN ", vlan.getVlanId(), " of this link is there twice"));
    }
    if (vlan.getCidr().size() > 0) report.cidr(kj::str(path, ".cidr"), vlan.getCidr());
    checkRoutes(report, path, vlan.getRoutes());
  }
}

void checkAddressing(Report& report, kj::StringPtr path, Interface::Reader interface) {
  if (interface.getDhcp() && interface.getCidr().size() > 0)
    report.error(kj::str(path, ".dhcp"), kj::str("cidr is set as well"), "remove one of the two");
  if (interface.getCidr().size() > 0) report.cidr(kj::str(path, ".cidr"), interface.getCidr());
  size_t i = 0;
  for (auto address : interface.getAddresses()) {
    auto place = kj::str(path, ".addresses[", i++, "]");
    if (Ip::parse(address) == nullptr) report.cidr(place, address);
  }
  if (interface.hasDhcpOptions() && !interface.getDhcp()) {
    report.warn(kj::str(path, ".dhcpOptions"), kj::str("without dhcp: true these have no effect"));
  } else if (interface.hasDhcpOptions() && !interface.getDhcpOptions().getIpv4() &&
             !interface.getDhcpOptions().getIpv6()) {
    report.warn(kj::str(path, ".dhcpOptions"),
                kj::str("neither ipv4 nor ipv6: DHCP asks for nothing"));
  }
}

void checkVip(Report& report, kj::StringPtr path, Vip::Reader vip, MachineType type) {
  if (!isControlPlane(type)) {
    report.error(path, kj::str("only control-plane machines can have a shared address"),
                 "remove vip, or set machine.type to controlplane");
  }
  auto place = kj::str(path, ".ip");
  if (vip.getIp().size() == 0) {
    report.error(place, kj::str("the shared address is missing"));
  } else if (Ip::parse(vip.getIp()) == nullptr) {
    report.error(place, kj::str("\"", vip.getIp(), "\" is not an IP address"),
                 Prefix::parse(vip.getIp()) == nullptr ? "" : "leave out the prefix length");
  }
}

void checkInterface(Report& report, kj::StringPtr path, Interface::Reader interface,
                    MachineType type, VlanIds& ids) {
  auto name = interface.getInterface();
  if (interface.hasDeviceSelector()) {
    if (name.size() > 0) {
      report.error(kj::str(path, ".deviceSelector"), kj::str("interface is set as well"),
                   "remove one of the two");
    }
  } else if (name.size() == 0) {
    report.error(kj::str(path, ".interface"), kj::str("the name of the link is missing"));
  } else if (!isLinkName(name)) {
    report.error(kj::str(path, ".interface"), kj::str("\"", name, "\" is not a name of a link"),
                 "1 to 15 characters without /, : and blanks");
  }
  checkAddressing(report, path, interface);
  auto mtu = interface.getMtu();
  if (mtu != 0 && (mtu < kSmallestMtu || mtu > kLargestMtu)) {
    report.warn(kj::str(path, ".mtu"), kj::str("no link has an MTU of ", mtu),
                "it is from 68 to 65536");
  }
  checkRoutes(report, path, interface.getRoutes());
  checkVlans(report, path, interface, ids);
  if (interface.hasBond() + interface.hasWireguard() + interface.getDummy() > 1) {
    report.error(path, kj::str("a link can be only one of bond, dummy and wireguard"));
  }
  if (interface.hasBond()) checkBond(report, kj::str(path, ".bond"), interface.getBond());
  if (interface.hasWireguard())
    checkWireguard(report, kj::str(path, ".wireguard"), interface.getWireguard());
  if (interface.hasVip()) checkVip(report, kj::str(path, ".vip"), interface.getVip(), type);
}

// What one link of a bond may not be or have.
void checkMembers(Report& report, Network::Reader network) {
  std::map<std::string, std::string> bondOf;
  size_t i = 0;
  for (auto interface : network.getInterfaces()) {
    auto path = kj::str("machine.network.interfaces[", i++, "].bond.interfaces");
    if (interface.getIgnore()) continue;
    size_t j = 0;
    for (auto member : interface.getBond().getInterfaces()) {
      auto place = kj::str(path, "[", j++, "]");
      auto [other, added] = bondOf.emplace(member.cStr(), interface.getInterface().cStr());
      if (member == interface.getInterface()) {
        report.error(place, kj::str("a bond cannot be a link of itself"));
      } else if (!added) {
        report.warn(place, kj::str("\"", member, "\" is in ", other->second.c_str(),
                                   " already; a link can be in one bond"));
      }
    }
  }
  i = 0;
  for (auto interface : network.getInterfaces()) {
    auto path = kj::str("machine.network.interfaces[", i++, "]");
    auto bond = bondOf.find(interface.getInterface().cStr());
    if (interface.getIgnore() || bond == bondOf.end()) continue;
    auto warn = [&](kj::StringPtr key, bool given) {
      if (!given) return;
      report.warn(kj::str(path, ".", key), kj::str("this link is part of ", bond->second.c_str(),
                                                   " and can have no address of its own"));
    };
    warn("cidr", interface.getCidr().size() > 0);
    warn("dhcp", interface.getDhcp());
    warn("vip", interface.hasVip());
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
      report.error(kj::str(path, ".aliases"), kj::str("there is no name for this address"));
    size_t j = 0;
    for (auto alias : entry.getAliases()) {
      auto place = kj::str(path, ".aliases[", j++, "]");
      if (!isDnsName(alias)) report.error(place, kj::str("\"", alias, "\" is not a host name"));
    }
  }
}

}  // namespace

void checkNetwork(Report& report, Network::Reader network, MachineType type) {
  auto hostname = network.getHostname();
  if (hostname.size() > 0 && !isDnsName(hostname)) {
    report.error("machine.network.hostname", kj::str("\"", hostname, "\" is not a host name"),
                 "labels of at most 63 letters, digits and dashes, 253 characters in all");
  }
  size_t i = 0;
  for (auto nameserver : network.getNameservers()) {
    auto path = kj::str("machine.network.nameservers[", i++, "]");
    if (Ip::parse(nameserver) == nullptr)
      report.error(path, kj::str("\"", nameserver, "\" is not an IP address"));
  }
  if (network.getNameservers().size() > kUsedNameservers)
    report.warn("machine.network.nameservers", kj::str("only the first three are used"));
  VlanIds ids;
  i = 0;
  for (auto interface : network.getInterfaces()) {
    auto path = kj::str("machine.network.interfaces[", i++, "]");
    if (!interface.getIgnore()) checkInterface(report, path, interface, type, ids);
  }
  checkMembers(report, network);
  checkHostEntries(report, network.getExtraHostEntries());
}

}  // namespace talos::config
