// A lease of a DHCPv4 server, with the times of its renewal and its end, and its form in a file
// (dhcp-lease-file.h). Pure.
#pragma once

#include "networkd/dhcp/dhcp-lease.h"
#include "networkd/dhcp/dhcp-message4.h"

namespace talos::networkd::dhcp {

struct Lease4 : Lease {
  Prefix address;
  Ip server;  // option 54
  // `routes` come from option 121 if the message has it, else from option 3, the default route (RFC
  // 3442). A gateway outside the address's prefix is preceded by an on-link route to it.

  Lease4 clone() const;
};

// Makes a lease from an offer or acknowledgement to a request sent at `obtained`. Returns nullptr
// if no machine could use the lease: no server to renew it with, no proper address, no time.
// Without a mask, the address's class decides; without option 51, the lease lasts half an hour. T1
// and T2 are 0.5 and 0.875 of this time (RFC 2131 §4.4.5) if they are missing or 0. A T2 after the
// end is replaced in the same way; a T1 after T2 is moved before T2 in the same proportion.
kj::Maybe<Lease4> leaseOf(const Message4& message, kj::TimePoint obtained);

kj::Array<kj::byte> encode(const Lease4& lease);
kj::Maybe<Lease4> decodeLease4(Bytes file, kj::TimePoint now);

}  // namespace talos::networkd::dhcp
