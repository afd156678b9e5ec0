// What has to be done so that the kernel's network is as it was asked for: pure, minimal,
// idempotent.
//
// plan() compares and lists ordered steps; when nothing differs, there are none. What networkd
// makes it marks with kMark (the protocol of addresses and routes), and it removes nothing without
// that mark, so addresses and routes of other programs and of the kernel stay, and after a crash at
// any line the next plan finds what is its own by the mark alone. Loopback is always wanted: up,
// 127.0.0.1/8 and ::1/128.
//
// A step may change more than itself (an address that goes takes its routes along), so the caller
// applies, reads the kernel again and plans again until the plan is empty.
#pragma once

#include <kj/map.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/netlink.h"

namespace talos::networkd {

// IFA_PROTO of addresses and rtm_protocol of routes that are ours ("t"); no registered protocol's
// number.
constexpr uint8_t kMark = 116;

struct WantedLink {
  kj::String name;
  bool up = true;
  unsigned mtu = 0;      // 0: leave it
  uint64_t version = 0;  // of its spec
};
struct WantedAddress {
  kj::String link;
  Prefix prefix;
  uint8_t scope = 0;  // RT_SCOPE_*
  uint64_t version = 0;
};
struct WantedRoute {
  kj::String link;  // empty: the link of the wanted address whose prefix has the gateway
  Prefix destination = {};
  kj::Maybe<Ip> gateway = nullptr;
  unsigned metric = 0;
  uint64_t version = 0;
};
struct Wanted {
  kj::Vector<WantedLink> links;
  kj::Vector<WantedAddress> addresses;
  kj::Vector<WantedRoute> routes;
  kj::Vector<kj::String> problems;  // specs that cannot be read, in words
};

struct Observed {
  kj::Vector<netlink::Link> links;
  kj::Vector<netlink::Address> addresses;
  kj::Vector<netlink::Route> routes;
  bool ipv6 = true;  // whether this kernel speaks it

  kj::Maybe<const netlink::Link&> link(kj::StringPtr name) const;
  kj::Maybe<const netlink::Link&> link(unsigned index) const;
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

// "eth0", or "link 7" when it is gone.
kj::String nameOf(const Observed& observed, unsigned index);
// Whether the kernel found that another machine has this address.
bool duplicated(const netlink::Address& address);

}  // namespace talos::networkd
