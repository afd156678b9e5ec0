// machine.network: gateways that their links cannot reach.

#include <map>
#include <string>

#include "common/config/kubernetes/cluster-networks.h"
#include "common/config/rules/config-check.h"
#include "common/net/ip.h"

namespace talos::config {
namespace {

constexpr size_t kMostCompared = 64;  // networks of a link that a gateway is looked for in

// Calls `each` with the name, the path and the entry of each link and VLAN that is not ignored. The
// name of a selected link is "".
void eachLink(Network::Reader network, auto&& each) {
  size_t i = 0;
  for (auto interface : network.getInterfaces()) {
    auto path = kj::str("machine.network.interfaces[", i++, "]");
    if (interface.getIgnore()) continue;
    std::string name = interface.getInterface().cStr();
    each(name, path, interface);
    size_t j = 0;
    for (auto vlan : interface.getVlans()) {
      each(name + "." + std::to_string(vlan.getVlanId()), kj::str(path, ".vlans[", j++, "]"), vlan);
    }
  }
}

// The networks that a link reaches without a gateway, over all entries of the config for the link.
struct Reach {
  bool dhcp = false, addressed = false, invalid = false;
  kj::Vector<Prefix> networks;
};

bool hasNextHop(Route::Reader route) {
  KJ_IF_MAYBE (gateway, Ip::parse(route.getGateway())) return !gateway->isAny();
  return route.getGateway().size() > 0;
}

template <typename Reader>
void addReach(Reach& reach, Reader link) {
  auto add = [&](kj::StringPtr address) {
    if (address.size() == 0) return;
    reach.addressed = true;
    KJ_IF_MAYBE (prefix, Prefix::parse(address)) {
      reach.networks.add(prefix->masked());
    } else {
      reach.invalid = true;
    }
  };
  reach.dhcp = reach.dhcp || link.getDhcp();
  add(link.getCidr());
  for (auto address : link.getAddresses()) {
    KJ_IF_MAYBE (single, Ip::parse(address)) {
      reach.addressed = true;
      reach.networks.add(Prefix::host(*single));
    } else {
      add(address);
    }
  }
  for (auto route : link.getRoutes()) {
    if (route.getType() != RouteType::UNICAST || hasNextHop(route)) continue;
    KJ_IF_MAYBE (destination, destinationOf(route)) reach.networks.add(*destination);
  }
}

// The kernel may learn networks of IPv6 from routers, so only IPv4 is certain. On loopback the
// kernel accepts no gateway of IPv6.
void checkGateway(Report& report, kj::StringPtr path, Route::Reader route, const Reach& reach,
                  bool loopback) {
  if (route.getType() != RouteType::UNICAST) return;
  KJ_IF_MAYBE (gateway, Ip::parse(route.getGateway())) {
    if (!gateway->isUnicast() || gateway->isLoopback()) return;
    bool six = gateway->family() == AF_INET6;
    if (six ? !loopback : route.getOnlink()) return;
    for (auto& network : reach.networks) {
      if (!six && network.contains(*gateway)) return;
    }
    report.warn(kj::str(path, ".gateway"),
                six ? kj::str("the kernel accepts no IPv6 gateway on lo")
                    : kj::str("no network of this link has ", *gateway,
                              ", so the kernel refuses the route"),
                loopback ? "set the route on the link whose network has the gateway"
                         : "set onlink: true, or an address in the gateway's network");
  }
}

}  // namespace

// Reports gateways that their links cannot reach. A link without an address in the config may have
// that of the kernel's command line, or of DHCP.
void checkGateways(Report& report, Network::Reader network) {
  std::map<std::string, Reach> reaches;
  bool selected = false;
  eachLink(network, [&](const std::string& name, kj::StringPtr, auto link) {
    selected = selected || name.empty() || name[0] == '.';
    addReach(reaches[name], link);
  });
  // A selector may choose the link of another entry.
  bool unknown = selected && network.getInterfaces().size() > 1;
  eachLink(network, [&](const std::string& name, kj::StringPtr path, auto link) {
    auto& reach = reaches[name];
    bool loopback = name == "lo";
    if (!loopback && (unknown || reach.dhcp || !reach.addressed)) return;
    if (reach.invalid || reach.networks.size() > kMostCompared) return;
    size_t i = 0;
    for (auto route : link.getRoutes()) {
      checkGateway(report, kj::str(path, ".routes[", i++, "]"), route, reach, loopback);
    }
  });
}

}  // namespace talos::config
