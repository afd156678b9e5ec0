// The facts that a platform states about a machine: its names, its network, its external addresses.
//
// The network has the shape of machine.network, with links selected by hardware address or name, so
// that one planner applies both. Values; filled by the readers of this folder from foreign
// documents: the readers keep valid values and note everything else in `problems`.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/net/ip.h"
#include "common/text/texts.h"
#include "rpc/config.capnp.h"
#include "rpc/platform.capnp.h"

namespace talos::platforms {

constexpr unsigned kRouteMetric = 1024, kRouteMetric6 = 2048;
// Limits for each kind; a machine has fewer.
constexpr unsigned kMostInterfaces = 64, kMostAddresses = 256, kMostRoutes = 256,
                   kMostProblems = 32;
constexpr unsigned kLargestVlan = 4094;
constexpr unsigned kSmallestMtu = 68, kLargestMtu = 65536;
constexpr unsigned kMostNumber = 0x7fffffff;  // of any other kind

struct Route {
  Prefix destination;
  kj::Maybe<Ip> gateway;  // nullptr: the destination is on the link itself
  unsigned metric;
  bool onlink = false;
};

struct Bond {
  // Each is a hardware address as macOf() returns it, or the name of a link.
  kj::Vector<kj::String> members;
  config::BondMode mode = config::BondMode::BALANCE_RR;
  config::BondXmitHashPolicy hashPolicy = config::BondXmitHashPolicy::LAYER2;
  config::BondLacpRate lacpRate = config::BondLacpRate::SLOW;
  unsigned miimon = 0, upDelay = 0, downDelay = 0;  // ms
};

struct Interface {
  // Hardware address in lower case, with colons; if empty, `name` selects the link.
  kj::String mac, name;
  unsigned mtu = 0;  // 0: unchanged
  bool dhcp4 = false, dhcp6 = false;
  unsigned dhcpMetric = kRouteMetric;
  kj::Maybe<Bond> bond;
  struct Vlan;
  kj::Vector<Vlan> vlans;

  // At most kMostAddresses and kMostRoutes: PlatformFacts adds them.
  kj::ArrayPtr<const Prefix> addresses() const { return addressList; }
  kj::ArrayPtr<const Route> routes() const { return routeList; }

 private:
  friend struct PlatformFacts;
  kj::Vector<Prefix> addressList;
  kj::Vector<Route> routeList;
};
struct Interface::Vlan {
  uint16_t id;
  Interface link;  // its mac is not used, its name only in problems

  Vlan(uint16_t id, kj::StringPtr name) : id(id) { link.name = kj::str(name); }
};

struct PlatformFacts {
  kj::String platform, hostname, region, zone, instanceType, instanceId, providerId;
  bool spot = false;
  kj::String internalDns, externalDns;
  kj::Vector<kj::String> resolvers, timeServers;
  kj::Vector<Interface> interfaces;
  kj::Vector<Ip> externalAddresses;
  kj::Vector<kj::String> problems;

  // Returns the interface with this hardware address, or with this name if `mac` is empty or not
  // valid; adds a new one if missing.
  Interface& interfaceOf(kj::StringPtr mac, kj::StringPtr name);
  Interface& interfaceOf(kj::StringPtr macOrName);
  // Repetitions and empty texts are ignored.
  void external(kj::StringPtr address);
  void resolver(kj::StringPtr address);

  // For a link; an entry beyond the limits is a problem.
  void addAddress(Interface& link, const Prefix& prefix);
  void addRoute(Interface& link, Route route);
  void addDefaultRoute(Interface& link, const Ip& gateway, unsigned metric);

  // The functions below read texts of a document, for the link of that name. A text that is not
  // valid is a problem that names the link; so is an empty text where a value is required.
  //
  // Returns the address that was added, by prefixOf(); required.
  kj::Maybe<Prefix> addAddress(Interface& link, kj::StringPtr text, kj::StringPtr mask = "");
  // Returns the address of a gateway; nullptr if missing.
  kj::Maybe<Ip> gatewayOf(kj::StringPtr link, kj::StringPtr text);
  // Uses the metric of its family.
  void addDefaultRoute(Interface& link, kj::StringPtr gateway);
  // 0 leaves the MTU unchanged.
  void setMtu(Interface& link, kj::StringPtr text);
  // Returns 0 to kLargestVlan; required.
  kj::Maybe<uint16_t> vlanIdOf(kj::StringPtr link, kj::StringPtr text);

  // "eth0: "1.2.3" is not a valid address; ignored". `where`: a link or a document.
  void invalid(kj::StringPtr where, kj::StringPtr text, kj::StringPtr noun);
  // "eth0: accept-ra is not supported; ignored"
  void unsupported(kj::StringPtr where, kj::StringPtr subject);
  // Adds each problem once.
  template <typename... Parts>
  void problem(Parts&&... parts) {
    if (problems.size() < kMostProblems) addOnce(problems, kj::str(kj::fwd<Parts>(parts)...));
  }

  void fill(rpc::PlatformFacts::Builder out) const;

 private:
  // Returns false, and adds a problem, if a list is full.
  bool hasRoom(size_t size, size_t most, kj::StringPtr where, kj::StringPtr noun);
};

// Parses "10.0.0.5/24", "10.0.0.5/255.255.255.0", or an address with `mask` (a mask or a length);
// without any of these, the address alone. Returns nullptr for anything else.
kj::Maybe<Prefix> prefixOf(kj::StringPtr address, kj::StringPtr mask = "");
unsigned metricOf(const Ip& gateway);
// Returns nullptr if the text is not a number within these bounds.
kj::Maybe<unsigned> numberIn(kj::StringPtr text, unsigned least, unsigned most);
// Sets `value` by the name that the machine config or the kernel uses. Returns false for an unknown
// name; an empty text leaves the value unchanged.
bool setEnum(kj::StringPtr text, config::BondMode& value);
bool setEnum(kj::StringPtr text, config::BondXmitHashPolicy& value);
bool setEnum(kj::StringPtr text, config::BondLacpRate& value);
// Returns lower case with colons: for "52-54-00-AA-BB-CC", "525400AABBCC", "52:54:00:aa:bb:cc".
// Returns nullptr if it is not a unicast address of six octets.
kj::Maybe<kj::String> macOf(kj::StringPtr text);

}  // namespace talos::platforms
