// Router advertisements as values: parsed from any bytes. Pure. RFC 4861 §4.2, 4.6, 6.1.2; RFC 8106
// (resolvers and search list).
//
// The kernel acts on addresses, routes and the MTU in them by itself; what it does not know, and
// only user space can use, are the resolvers, the search list, and the two flags that ask for
// DHCPv6.
#pragma once

#include "networkd/dhcp/dhcp-wire.h"

namespace talos::networkd::dhcp {

struct Advertisement {
  struct OnPrefix {
    Prefix prefix;
    bool onLink = false, autonomous = false;
    uint32_t valid = 0, preferred = 0;  // seconds
  };
  struct Resolvers {
    uint32_t lifetime = 0;  // seconds; 0: no longer to be used
    kj::Vector<Ip> servers;
  };
  struct Search {
    uint32_t lifetime = 0;
    kj::Vector<kj::String> names;
  };

  uint8_t hopLimit = 0;
  bool managed = false, other = false;     // ask DHCPv6 for addresses; for anything else
  uint16_t lifetime = 0;                   // of the router as default one, seconds; 0: it is none
  uint32_t reachable = 0, retransmit = 0;  // milliseconds
  kj::Maybe<uint32_t> mtu;
  kj::Vector<OnPrefix> prefixes;
  kj::Vector<Resolvers> resolvers;
  kj::Vector<Search> search;
};

// `message` begins with the ICMPv6 header; its checksum and hop limit (255) are the caller's part.
kj::Maybe<Advertisement> parseAdvertisement(Bytes message);

// Asks all routers to advertise at once (§4.1). The kernel fills in the checksum.
kj::Array<kj::byte> routerSolicitation(Bytes hardwareAddress);

}  // namespace talos::networkd::dhcp
