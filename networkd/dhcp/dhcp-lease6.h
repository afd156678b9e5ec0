// A lease of a DHCPv6 server, and the answer to an INFORMATION-REQUEST; and its form in a file
// (dhcp-lease-file.h). Pure.
#pragma once

#include "networkd/dhcp/dhcp-lease.h"
#include "networkd/dhcp/dhcp-message6.h"

namespace talos::networkd::dhcp {

struct Lease6 : Lease {
  kj::Array<kj::byte> server;  // its identifier
  kj::Maybe<Ip> address;       // none: of an INFORMATION-REQUEST
};
// Of a reply. None when it has no address for `association`, or one that cannot be used.
kj::Maybe<Lease6> leaseOf(const Message6& message, uint32_t association, kj::TimePoint obtained);
// Of the answer to an INFORMATION-REQUEST.
Lease6 informationOf(const Message6& message, kj::TimePoint obtained);

kj::Array<kj::byte> encode(const Lease6& lease);
kj::Maybe<Lease6> decodeLease6(Bytes file, uint32_t association, kj::TimePoint now);

}  // namespace talos::networkd::dhcp
