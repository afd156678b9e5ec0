// What a DHCPv4 server gave, with the moments at which it has to be renewed and at which it ends;
// and its form in a file (dhcp-lease-file.h). Pure.
#pragma once

#include <kj/time.h>

#include "networkd/dhcp/dhcp-message4.h"

namespace talos::networkd::dhcp {

struct Lease4 {
  Prefix address;
  Ip server;  // option 54
  // Of option 121 if it is there, else the default route by option 3 (RFC 3442). A gateway that the
  // address's prefix does not have is preceded by a route to it on the link.
  kj::Vector<Route4> routes;
  kj::Vector<Ip> resolvers, timeServers;
  kj::String hostname, domain;
  kj::Vector<kj::String> search;
  kj::Maybe<uint16_t> mtu;
  uint32_t seconds = 0;  // 0xffffffff: for ever
  kj::TimePoint obtained = kj::origin<kj::TimePoint>();
  kj::Maybe<kj::TimePoint> renew, rebind, expires;  // T1, T2, the end; none: never
  kj::Array<kj::byte> message;                      // the server's, as encode() makes it

  bool expired(kj::TimePoint now) const;
  Lease4 clone() const;
};

// Of an offer or acknowledgement to a request that was sent at `obtained`. None when no machine
// could use it: no server that could be asked again, no proper address, no time. Without a mask the
// address's class decides; without option 51 it is half an hour. T1 and T2 are 0.5 and 0.875 of the
// whole (RFC 2131 §4.4.5) when they are not given or 0; so is a T2 behind the end, and a T1 behind
// T2 is before it in the same proportion.
kj::Maybe<Lease4> leaseOf(const Message4& message, kj::TimePoint obtained);

kj::Array<kj::byte> encode(const Lease4& lease);
kj::Maybe<Lease4> decodeLease4(Bytes file, kj::TimePoint now);

}  // namespace talos::networkd::dhcp
