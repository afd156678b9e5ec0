// Parses the parts of router advertisements that only user space can use, from any bytes:
// resolvers, the search list (RFC 8106), and the flag that DHCPv6 has more settings. The kernel
// handles addresses, routes and the MTU. Pure. RFC 4861 §4.2, 4.6, 6.1.2.
#pragma once

#include "networkd/dhcp/dhcp-wire.h"

namespace talos::networkd::dhcp {

struct Advertisement {
  struct Resolvers {
    uint32_t lifetime = 0;  // seconds; 0: withdrawn
    kj::Vector<Ip> servers;
  };
  struct Search {
    uint32_t lifetime = 0;
    kj::Vector<kj::String> names;
  };

  bool other = false;  // DHCPv6 has more settings (the flag O, or M, which includes it: §4.2)
  kj::Vector<Resolvers> resolvers;
  kj::Vector<Search> search;
};

// `message` begins with the ICMPv6 header; the caller checks its checksum and hop limit (255).
kj::Maybe<Advertisement> parseAdvertisement(Bytes message);

// Builds a request to all routers to advertise at once (§4.1). The kernel fills in the checksum.
kj::Array<kj::byte> routerSolicitation(Bytes hardwareAddress);

}  // namespace talos::networkd::dhcp
