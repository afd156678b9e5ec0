// Plans the changes that make the kernel's network match the specs: pure, minimal, idempotent.
//
// plan() compares and lists ordered steps, or no step if nothing differs. networkd marks its
// objects with kMark (the protocol of addresses, routes and rules, the group of links), which the
// kernel sets at the moment of their creation, and removes nothing without this mark. So links,
// addresses, routes and rules of other programs and of the kernel stay, and after a crash at any
// line the next plan recognizes networkd's objects by the mark alone. Loopback is always wanted:
// up, 127.0.0.1/8 and ::1/128.
//
// A step may change other objects (a removed address takes its routes along), and objects on a new
// link need its index. So the caller applies, reads the kernel again and plans again until the plan
// is empty. The rules for links (which links must be down, empty or present before a step) are in
// plan-links.h.
#pragma once

#include <kj/map.h>
#include <kj/string.h>
#include <kj/vector.h>

#include <algorithm>
#include <set>
#include <vector>

#include "common/net/ip.h"
#include "common/netlink/netlink.h"

namespace talos::networkd {

// An index of a list's items by key, so that comparing two long lists takes hardly longer than
// reading them. Pure.
//
// Keys are numbers. A key that is made of more data than fits into a number is a hash, so the
// caller compares the item itself.
class Positions {
 public:
  struct Entry {
    uint64_t key;
    uint32_t position;
    auto operator<=>(const Entry&) const = default;
  };

  // Indexes each item of the list by `keyOf(item)`.
  template <typename List, typename KeyOf>
  void take(const List& list, KeyOf&& keyOf) {
    entries.clear();
    entries.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) entries.push_back({keyOf(list[i]), uint32_t(i)});
    std::sort(entries.begin(), entries.end());
  }
  // Returns the entries in the order of the list.
  kj::ArrayPtr<const Entry> of(uint64_t key) const {
    auto from = std::lower_bound(entries.begin(), entries.end(), Entry{key, 0});
    auto to = from;
    while (to != entries.end() && to->key == key) ++to;
    return kj::arrayPtr(entries.data() + (from - entries.begin()), to - from);
  }

 private:
  std::vector<Entry> entries;
};

inline uint64_t keyOf(kj::StringPtr name) {
  return kj::hashCode(name);
}
inline uint64_t keyOf(const Prefix& destination, unsigned metric) {
  return uint64_t(kj::hashCode(destination.address.bytes())) << 32 |
         (metric * 31 + destination.length);
}

// IFA_PROTO of addresses, rtm_protocol of routes, FRA_PROTOCOL of rules and IFLA_GROUP of
// networkd's links ("t"); not a registered protocol's number.
constexpr uint8_t kMark = 116;

struct WantedPeer {
  netlink::WireguardKey publicKey{};
  kj::String endpoint = nullptr;          // as configured; empty: the peer connects to us
  std::optional<Endpoint> resolved = {};  // current addresses of the endpoint
  bool moved = false;      // networkd set another endpoint: a peer that roams does not get its
                           // endpoint back
  uint16_t keepalive = 0;  // s
  std::vector<Prefix> allowed = {};
};
struct WantedWireguard {
  kj::Maybe<netlink::WireguardSecret> privateKey;  // nullptr: not arrived yet
  uint16_t listenPort = 0;                         // 0: the kernel chooses
  uint32_t firewallMark = 0;
  kj::Vector<WantedPeer> peers;
};

struct WantedLink {
  kj::String name;
  bool up = true;
  unsigned mtu = 0;      // 0: unchanged
  uint64_t version = 0;  // version of the link's spec
  // "bond", "bridge", "dummy", "veth", "vlan", "vrf", "wireguard"; empty: hardware
  kj::String kind = nullptr;
  kj::String parent = nullptr, master = nullptr;
  netlink::VlanTag vlan = {};
  netlink::BondOptions bond = {};  // options that are not given get the kernel's standard
  kj::String primary = nullptr;
  netlink::BridgeOptions bridge = {};
  WantedWireguard wireguard = {};
  uint32_t vrfTable = 0;
  kj::String peer = nullptr;   // name of the other end of a veth
  kj::String layer = nullptr;  // layer of its spec; "default": no config names the link
};
struct WantedAddress {
  kj::String link;
  Prefix prefix;
  uint8_t scope = 0;  // RT_SCOPE_*
  uint64_t version = 0;
  unsigned order = 0;  // the lowest IPv4 address of a network on a link is the primary
};
struct WantedRoute {
  kj::String link = nullptr;  // empty: the link of the wanted address whose prefix has the gateway
  Prefix destination = {};
  kj::Maybe<Ip> gateway = nullptr;
  unsigned metric = 0;
  uint64_t version = 0;
  kj::Maybe<Ip> source = nullptr;
  unsigned mtu = 0;            // 0: the link's MTU
  bool onlink = false;         // the gateway is on the link even without an address for it
  uint8_t type = RTN_UNICAST;  // or a type without a target, which has no link and none of these
                               // fields
  uint32_t table = RT_TABLE_MAIN;
};
struct WantedRule {
  netlink::Rule rule;  // its protocol is kMark
  uint64_t version = 0;
};
struct Wanted {
  kj::Vector<WantedLink> links;
  kj::Vector<WantedAddress> addresses;
  kj::Vector<WantedRoute> routes;
  kj::Vector<WantedRule> rules = {};
  kj::Vector<kj::String> problems;  // unreadable specs, in words
};

// The MTU of hardware before networkd changed it, to be restored later.
struct FirstMtu {
  unsigned link;  // index
  unsigned mtu;
  bool operator==(const FirstMtu&) const = default;
};

// A port that a config gave to a link of WireGuard, to be given back later.
struct TunnelPort {
  unsigned link;  // index
  uint16_t port;
  bool operator==(const TunnelPort&) const = default;
};

// The hardware of a card.
struct Hardware {
  kj::String driver;   // virtio_net
  kj::String busPath;  // 0000:00:03.0
  kj::String pciId;    // 1af4:1000
};

struct Observed {
  kj::Vector<netlink::Link> links;
  kj::Vector<netlink::Address> addresses;
  kj::Vector<netlink::Route> routes;
  bool ipv6 = true;  // the kernel supports IPv6
  struct Tunnel {
    unsigned link;
    netlink::WireguardDevice device;
  };
  kj::Vector<Tunnel> tunnels = {};  // for the links of kind "wireguard"
  int64_t now = 0;                  // s since 1970, to find old handshakes
  std::vector<FirstMtu> firstMtus = {};
  std::vector<TunnelPort> tunnelPorts = {};
  kj::HashMap<unsigned, Hardware> hardware = {};  // by the link's index; for statuses only
  kj::Vector<netlink::Rule> rules = {};           // empty, too, if they cannot be read

  kj::Maybe<const netlink::Link&> link(kj::StringPtr name) const;
  kj::Maybe<const netlink::Link&> link(unsigned index) const;

  // Index of `links`, made at the first lookup; `links` must not change afterwards.
  struct Index {
    const netlink::Link* first = nullptr;
    size_t count = 0;
    Positions byName, byIndex;
  };
  mutable Index index = {};

 private:
  void makeIndex() const;
};

struct Step {
  netlink::Change change;
  kj::String what;  // "address 10.5.0.2/24 on eth0": start of an error message
};
struct Plan {
  kj::Vector<Step> steps;
  kj::Vector<kj::String> problems;  // impossible steps and their causes
  // Sum of the versions of the specs that are already applied. A spec counts, too, if the kernel
  // never accepts the rest of it, which is a problem: waiting for it would not end well.
  uint64_t applied = 0;
};

Plan plan(const Wanted& wanted, const Observed& observed);

// Returns "lo, eth0"; if there are many links, the first.
kj::String linkNames(const Observed& observed);
// Returns "eth0", or "link 7" if the link is gone.
kj::String nameOf(const Observed& observed, unsigned index);
// Reads everything that plan() needs. Each list is consistent in itself; if the lists do not match,
// a notice of the change is on its way. `tables`: those that may have routes of networkd; the main
// table and those of VRFs are read without being named.
Observed observe(netlink::Kernel& kernel, bool ipv6, int64_t now,
                 const std::set<uint32_t>& tables = {});
// Returns the tables that have routes of networkd.
std::set<uint32_t> tablesOf(kj::ArrayPtr<const netlink::Route> allRoutes);
// Adds the tables of the wanted routes.
void addTables(std::set<uint32_t>& tables, const Wanted& wanted);
// Returns true if the kernel found that another machine has this address.
bool duplicated(const netlink::Address& address);

// Describes changes of the kernel's network for readers: links by their names. Pure.

// Returns, for example, "add address 10.5.0.2/24 to link eth0", where netlink::describe() says link
// 2. A link that `observed` lacks keeps its number.
kj::String describe(const netlink::Change& change, const Observed& observed);

// Returns the name of the changed link; empty if the link is gone.
kj::String linkOf(const netlink::Change& change, const Observed& observed);

}  // namespace talos::networkd
