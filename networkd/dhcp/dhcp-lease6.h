// A lease of a DHCPv6 server, and the answer to an INFORMATION-REQUEST; and its form in a file
// (dhcp-lease-file.h). Pure.
#pragma once

#include "networkd/dhcp/dhcp-lease.h"
#include "networkd/dhcp/dhcp-message6.h"

namespace talos::networkd::dhcp {

struct Lease6 : Lease {
  kj::Array<kj::byte> server;  // identifier of the server
  kj::Maybe<Ip> address;       // nullptr after an INFORMATION-REQUEST
};
// Makes a lease from a reply. Returns nullptr if the reply has no address for `association`, or one
// that cannot be used.
kj::Maybe<Lease6> leaseOf(const Message6& message, uint32_t association, kj::TimePoint obtained);
// Makes a lease without an address from the answer to an INFORMATION-REQUEST.
Lease6 informationOf(const Message6& message, kj::TimePoint obtained);

kj::Array<kj::byte> encode(const Lease6& lease);
kj::Maybe<Lease6> decodeLease6(Bytes file, uint32_t association, kj::TimePoint now);

}  // namespace talos::networkd::dhcp
