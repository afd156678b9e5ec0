// Plans the changes that make the kernel's network as the specs say: pure, minimal, idempotent.
//
// plan() compares and lists ordered steps; when nothing differs, there are none. What networkd
// makes it marks with kMark (the protocol of addresses and routes, the group of links, which the
// kernel sets in the same moment in which it makes them), and it removes nothing without that mark,
// so links, addresses and routes of other programs and of the kernel stay, and after a crash at any
// line the next plan finds what is its own by the mark alone. Loopback is always wanted: up,
// 127.0.0.1/8 and ::1/128.
//
// A step may change more than itself (an address that goes takes its routes along), and what stands
// on a new link needs its index, so the caller applies, reads the kernel again and plans again
// until the plan is empty. The rules for links (what must be down, empty or there before what) are
// in plan-links.h.
#pragma once

#include <kj/map.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/netlink/netlink.h"
#include "networkd/plan/positions.h"

namespace talos::networkd {

// IFA_PROTO of addresses, rtm_protocol of routes and IFLA_GROUP of links that are ours ("t"); no
// registered protocol's number.
constexpr uint8_t kMark = 116;

struct WantedPeer {
  netlink::WireguardKey publicKey{};
  kj::String endpoint = nullptr;          // as it was given; empty: it calls us
  std::optional<Endpoint> resolved = {};  // what the endpoint is now
  bool moved = false;      // it was set to another one by us: a peer that roams is not called back
  uint16_t keepalive = 0;  // s
  std::vector<Prefix> allowed = {};
};
struct WantedWireguard {
  kj::Maybe<netlink::WireguardSecret> privateKey;  // none: it has not arrived yet
  uint16_t listenPort = 0;                         // 0: any
  uint32_t firewallMark = 0;
  kj::Vector<WantedPeer> peers;
};

struct WantedLink {
  kj::String name;
  bool up = true;
  unsigned mtu = 0;           // 0: leave it
  uint64_t version = 0;       // of its spec
  kj::String kind = nullptr;  // "bond", "bridge", "dummy", "vlan", "wireguard"; empty: hardware
  kj::String parent = nullptr, master = nullptr;
  netlink::VlanTag vlan = {};
  netlink::BondOptions bond = {};  // what is not given is to be the kernel's standard
  kj::String primary = nullptr;
  netlink::BridgeOptions bridge = {};
  WantedWireguard wireguard = {};
  kj::String layer = nullptr;  // of its spec; "default": no config names it
};
struct WantedAddress {
  kj::String link;
  Prefix prefix;
  uint8_t scope = 0;  // RT_SCOPE_*
  uint64_t version = 0;
  unsigned order = 0;  // of IPv4 addresses of one network on a link the lowest is the primary
};
struct WantedRoute {
  kj::String link = nullptr;  // empty: the link of the wanted address whose prefix has the gateway
  Prefix destination = {};
  kj::Maybe<Ip> gateway = nullptr;
  unsigned metric = 0;
  uint64_t version = 0;
  kj::Maybe<Ip> source = nullptr;
  unsigned mtu = 0;            // 0: that of the link
  bool onlink = false;         // the gateway is on the link though no address says so
  uint8_t type = RTN_UNICAST;  // or one that goes nowhere, which has no link and none of these
};
struct Wanted {
  kj::Vector<WantedLink> links;
  kj::Vector<WantedAddress> addresses;
  kj::Vector<WantedRoute> routes;
  kj::Vector<kj::String> problems;  // specs that cannot be read, in words
};

// The MTU that hardware had before networkd changed it, so that it can go back to it.
struct FirstMtu {
  unsigned link;  // index
  unsigned mtu;
  bool operator==(const FirstMtu&) const = default;
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
  bool ipv6 = true;  // whether this kernel speaks it
  struct Tunnel {
    unsigned link;
    netlink::WireguardDevice device;
  };
  kj::Vector<Tunnel> tunnels = {};  // of the links of kind "wireguard"
  int64_t now = 0;                  // s since 1970, against which handshakes are old
  std::vector<FirstMtu> firstMtus = {};
  kj::HashMap<unsigned, Hardware> hardware = {};  // by the link's index; for statuses only

  kj::Maybe<const netlink::Link&> link(kj::StringPtr name) const;
  kj::Maybe<const netlink::Link&> link(unsigned index) const;

  // Of `links`, made when it is first asked for one; those stay as they are from then on.
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
  kj::String what;  // "address 10.5.0.2/24 on eth0": how a failure begins
};
struct Plan {
  kj::Vector<Step> steps;
  kj::Vector<kj::String> problems;  // what cannot be done as things are, and why
  uint64_t applied = 0;             // sum of the versions of the specs that hold already
};

Plan plan(const Wanted& wanted, const Observed& observed);

// "lo, eth0"; of many links the first.
kj::String linkNames(const Observed& observed);
// "eth0", or "link 7" when it is gone.
kj::String nameOf(const Observed& observed, unsigned index);
// Everything that plan() looks at. Each list is whole in itself; where they do not fit together, a
// notice of the change is on its way.
Observed observe(netlink::Kernel& kernel, bool ipv6, int64_t now);
// True if the kernel found that another machine has this address.
bool duplicated(const netlink::Address& address);

}  // namespace talos::networkd
