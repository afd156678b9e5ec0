// Neighbours: the hardware addresses behind the addresses of a link (ARP, IPv6 neighbour discovery;
// linux/neighbour.h, ip-neighbour(8)). They are read, not written. The type, its names and its
// messages. Pure.
//
// Entries of the kernel's own making come, go and change their state all the time. Proxied
// addresses are not entries, and are not listed. Of AF_BRIDGE (a bridge's table
// of hardware addresses), which uses the same messages, nothing is read.
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
  std::vector<kj::byte> hardwareAddress = {};  // empty: not known
  uint16_t state = NUD_NONE;                   // one of NUD_*
  uint8_t flags = 0;                           // NTF_*
  uint32_t moreFlags = 0;                      // NTF_EXT_*
  uint8_t protocol = 0;                        // who made it; 0: nobody said

  kj::ArrayPtr<const kj::byte> hardware() const {
    return kj::arrayPtr(hardwareAddress.data(), hardwareAddress.size());
  }
  auto operator<=>(const Neighbour&) const = default;
};

// "reachable", "stale" ...: as ip-neighbour(8) says it.
kj::StringPtr neighbourStateName(uint16_t state);
// "router", "externallyLearned" ...
kj::Vector<kj::StringPtr> neighbourFlagNames(const Neighbour& neighbour);
kj::Array<kj::byte> encodeNeighbourDump();
// None of other families.
kj::Maybe<Neighbour> decodeNeighbour(const nlmsghdr* message);

}  // namespace talos::netlink
