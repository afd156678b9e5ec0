// A lease of a DHCPv4 server, with the times of its renewal and its end, and its form in a file
// (dhcp-lease-file.h). Pure.
#pragma once

#include "networkd/dhcp/dhcp-lease.h"
#include "networkd/dhcp/dhcp-message4.h"

namespace talos::networkd::dhcp {

struct Lease4 : Lease {
  Prefix address;
  Ip server;  // option 54
  // `routes` are of option 121 if it is there, else the default route by option 3 (RFC 3442). A
  // gateway that the address's prefix does not have is preceded by a route to it on the link.

  Lease4 clone() const;
};

// Made of an offer or acknowledgement to a request that was sent at `obtained`. None when no
// machine could use it: no server that could be asked again, no proper address, no time. Without a
// mask the address's class decides; without option 51 it is half an hour. T1 and T2 are 0.5 and
// 0.875 of the whole (RFC 2131 §4.4.5) when they are missing or 0; so is a T2 behind the end, and a
// T1 behind T2 is before it in the same proportion.
kj::Maybe<Lease4> leaseOf(const Message4& message, kj::TimePoint obtained);

kj::Array<kj::byte> encode(const Lease4& lease);
kj::Maybe<Lease4> decodeLease4(Bytes file, kj::TimePoint now);

}  // namespace talos::networkd::dhcp
