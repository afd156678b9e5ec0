// Leases of DHCP servers, with the times of their renewal and their end, and their form in a file.
// Pure.
#pragma once

#include <kj/time.h>

#include "networkd/dhcp/dhcp-message4.h"
#include "networkd/dhcp/dhcp-message6.h"
#include "networkd/dhcp/dhcp-wire.h"

namespace talos::networkd::dhcp {

// The part of a lease that DHCPv4 and DHCPv6 have in common: its lifetimes, and the settings of the
// network that came with it.
struct Lease {
  kj::Maybe<Prefix> prefix;  // address for the link; nullptr: only settings
  kj::String serverName;     // name of its server
  kj::Vector<Ip> resolvers, timeServers;
  kj::Vector<kj::String> search;
  kj::String hostname, domain;
  kj::Vector<Route4> routes;  // DHCPv4 only; in DHCPv6, routers announce the routes
  kj::Maybe<uint16_t> mtu;
  uint32_t seconds = 0;  // kInfinite: for ever
  kj::TimePoint obtained = kj::origin<kj::TimePoint>();
  // T1, T2, the end; nullptr: never. Without an address, `renew` is the time of the next request.
  kj::Maybe<kj::TimePoint> renew, rebind, expires;
  kj::Array<kj::byte> message;  // the server's message, as encode() writes it

  bool expired(kj::TimePoint now) const {
    KJ_IF_MAYBE (end, expires) return now >= *end;
    return false;
  }

  // Copies the settings that both protocols' messages have.
  template <typename Message>
  void take(const Message& from, kj::TimePoint at) {
    obtained = at;
    resolvers.addAll(from.resolvers);
    timeServers.addAll(from.timeServers);
    for (auto& name : from.search) search.add(kj::str(name));
    hostname = kj::str(from.hostname);
    message = encode(from);
  }
  void setTimes(kj::Duration first, kj::Duration second, kj::Duration whole) {
    renew = obtained + first;
    rebind = obtained + second;
    expires = obtained + whole;
  }
};

// The file in which a lease outlives the process: magic, time, the server's message, and a CRC-32
// of all three.
//
// The time is that of the monotonic clock (kj::TimePoint of kj::Timer), which all processes of one
// boot share; the file therefore belongs in a folder that is empty after a boot.
struct LeaseFile {
  kj::TimePoint obtained;
  Bytes message;
};

// `magic` names the protocol and the format.
kj::Array<kj::byte> encode(kj::StringPtr magic, const LeaseFile& content);
// Returns nullptr if the file is not a result of encode(), or its time is later than `now`. The
// message points into the file.
kj::Maybe<LeaseFile> decodeLeaseFile(kj::StringPtr magic, Bytes file, kj::TimePoint now);

// A lease of a DHCPv4 server.
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

// A lease of a DHCPv6 server, or the answer to an INFORMATION-REQUEST.
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
// Returns nullptr for the lease of another association, or of another client.
kj::Maybe<Lease6> decodeLease6(Bytes file, uint32_t association, Bytes client, kj::TimePoint now);

}  // namespace talos::networkd::dhcp
