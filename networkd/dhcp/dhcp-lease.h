// The part of a lease that DHCPv4 and DHCPv6 have in common: its lifetimes, and the settings of the
// network that came with it. Pure.
#pragma once

#include <kj/time.h>

#include "networkd/dhcp/dhcp-message4.h"

namespace talos::networkd::dhcp {

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

}  // namespace talos::networkd::dhcp
