// Neighbours: the hardware addresses for the IP addresses reachable on a link (ARP, IPv6 neighbour
// discovery; linux/neighbour.h, ip-neighbour(8)). They are read, not written. Their type, names and
// messages. Pure.
//
// Entries that the kernel creates come, go and change their state all the time. Proxied addresses
// are not entries, and are not listed. Messages of AF_BRIDGE (a bridge's table of hardware
// addresses), which have the same types, are ignored.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <linux/neighbour.h>

#include <vector>

#include "common/net/ip.h"

struct nlmsghdr;

namespace talos::netlink {

struct Neighbour {
  unsigned link = 0;  // index
  Ip address = {};
  std::vector<kj::byte> hardwareAddress = {};  // empty if unknown
  uint16_t state = NUD_NONE;                   // one of NUD_*
  uint8_t flags = 0;                           // NTF_*
  uint32_t moreFlags = 0;                      // NTF_EXT_*
  uint8_t protocol = 0;                        // creator of the entry; 0 if unknown

  kj::ArrayPtr<const kj::byte> hardware() const {
    return kj::arrayPtr(hardwareAddress.data(), hardwareAddress.size());
  }
  auto operator<=>(const Neighbour&) const = default;
};

// Returns "reachable", "stale" ..., as ip-neighbour(8) prints it.
kj::StringPtr neighbourStateName(uint16_t state);
// Returns "router", "externallyLearned" ...
kj::Vector<kj::StringPtr> neighbourFlagNames(const Neighbour& neighbour);
kj::Array<kj::byte> encodeNeighbourDump();
// Returns nullptr for other families.
kj::Maybe<Neighbour> decodeNeighbour(const nlmsghdr* message);

}  // namespace talos::netlink
