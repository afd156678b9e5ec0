// The facts that a platform states about a machine: its names, its network, its addresses outside.
//
// The network has the shape of machine.network, with links selected by hardware address or name, so
// that one planner applies both. Values; filled by the readers of this room from foreign documents,
// which keep what is a value of its kind and note everything else in `problems`.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"
#include "rpc/config.capnp.h"
#include "rpc/platform.capnp.h"

namespace talos::platforms {

constexpr unsigned kRouteMetric = 1024, kRouteMetric6 = 2048;
// Of each kind; a machine has fewer.
constexpr unsigned kMostInterfaces = 64, kMostAddresses = 256, kMostRoutes = 256,
                   kMostProblems = 32;

struct Route {
  Prefix destination;
  kj::Maybe<Ip> gateway;  // none: the destination is on the link itself
  unsigned metric;
  bool onlink = false;
};

struct Bond {
  // Each a hardware address as macOf() makes them, or the name of a link.
  kj::Vector<kj::String> members;
  config::BondMode mode = config::BondMode::BALANCE_RR;
  config::BondXmitHashPolicy hashPolicy = config::BondXmitHashPolicy::LAYER2;
  config::BondLacpRate lacpRate = config::BondLacpRate::SLOW;
  unsigned miimon = 0, upDelay = 0, downDelay = 0;  // ms
};

struct Interface {
  // The hardware address in lower case, with colons; empty: the link has this name.
  kj::String mac, name;
  unsigned mtu = 0;  // 0: as it is
  bool dhcp4 = false, dhcp6 = false;
  unsigned dhcpMetric = kRouteMetric;
  kj::Vector<Prefix> addresses;
  kj::Vector<Route> routes;
  kj::Maybe<Bond> bond;
  struct Vlan;
  kj::Vector<Vlan> vlans;

  void defaultRoute(const Ip& gateway, unsigned metric);
};
struct Interface::Vlan {
  uint16_t id;
  Interface link;  // its mac and name are not used
};

struct PlatformFacts {
  kj::String platform, hostname, region, zone, instanceType, instanceId, providerId;
  bool spot = false;
  kj::String internalDns, externalDns;
  kj::Vector<kj::String> resolvers, timeServers;
  kj::Vector<Interface> interfaces;
  kj::Vector<Ip> externalAddresses;
  kj::Vector<kj::String> problems;

  // The interface of that name, or hardware address if `mac` is one; made when it is new.
  Interface& interfaceOf(kj::StringPtr mac, kj::StringPtr name);
  // Skips what is no address, and repetitions.
  void external(kj::StringPtr address);
  void resolver(kj::StringPtr address);

  template <typename... Parts>
  void problem(Parts&&... parts) {
    if (problems.size() < kMostProblems) problems.add(kj::str(kj::fwd<Parts>(parts)...));
  }

  void fill(rpc::PlatformFacts::Builder out) const;
};

// "10.0.0.5/24", "10.0.0.5/255.255.255.0", or an address with `mask`: a mask or a length; without
// any, the address alone. None: it is none of them.
kj::Maybe<Prefix> prefixOf(kj::StringPtr address, kj::StringPtr mask = "");
// Into `value`, by the name that the machine config or the kernel has. False: it has another; an
// empty text is left as it is.
bool setEnum(kj::StringPtr text, config::BondMode& value);
bool setEnum(kj::StringPtr text, config::BondXmitHashPolicy& value);
bool setEnum(kj::StringPtr text, config::BondLacpRate& value);
// Lower case, with colons: of "52-54-00-AA-BB-CC", "525400AABBCC", "52:54:00:aa:bb:cc". None: it is
// no unicast address of six octets.
kj::Maybe<kj::String> macOf(kj::StringPtr text);

}  // namespace talos::platforms
