// Parses the parts of router advertisements that only user space can use, from any bytes:
// resolvers, the search list (RFC 8106), and the flag that DHCPv6 has more settings. The kernel
// handles addresses, routes and the MTU. Pure. RFC 4861 §4.2, 4.6, 6.1.2.
#pragma once

#include <kj/time.h>

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

// Resolvers and search domains that routers have advertised, each until its lifetime is over (RFC
// 8106 §5, 6). Pure.
//
// Any machine of the link can advertise, so at most 16 of each are kept; the oldest is dropped
// first.
class Advertised {
 public:
  // Returns true if the message changed the result of resolvers(), search() or other().
  bool handle(const Advertisement& message, kj::TimePoint now);
  bool expire(kj::TimePoint now);
  kj::Maybe<kj::TimePoint> deadline() const;

  kj::Vector<Ip> resolvers() const;
  kj::Vector<kj::String> search() const;
  // Returns true if a router said that DHCPv6 has more settings.
  bool other() const { return information; }
  bool any() const { return advertised; }

 private:
  template <typename T>
  struct Held {
    T value;
    kj::Maybe<kj::TimePoint> until;  // nullptr: for ever
  };
  kj::Vector<Held<Ip>> servers;
  kj::Vector<Held<kj::String>> domains;
  bool information = false, advertised = false;

  template <typename T>
  static bool put(kj::Vector<Held<T>>& list, T value, uint32_t lifetime, kj::TimePoint now);
  template <typename T>
  static bool drop(kj::Vector<Held<T>>& list, kj::TimePoint now);
};

}  // namespace talos::networkd::dhcp
