// Announces to the hosts of a link that this host now has an address: gratuitous ARP (RFC 5227 §3),
// and unsolicited neighbour advertisements for IPv6 (RFC 4861 §7.2.6). The packets are pure
// functions; sending keeps no socket open.
#pragma once

#include <kj/array.h>
#include <kj/time.h>

#include "common/net/ip.h"
#include "common/netlink/netlink.h"

namespace talos::vipd {

using netlink::Mac;

// Some hosts accept only requests, some only replies: announcements alternate.
enum class ArpKind { kReply, kRequest };
kj::Array<kj::byte> gratuitousArp(const Mac& mac, const Ip& address, ArpKind kind);
// Builds ICMPv6 without its checksum, which the kernel fills in.
kj::Array<kj::byte> unsolicitedAdvertisement(const Mac& mac, const Ip& address);

// Returns the time of the n-th announcement, counted from 0, after the address was added.
constexpr kj::Duration announcementAt(unsigned n) {
  constexpr int kFirst[] = {0, 1, 2, 4, 8};
  constexpr unsigned kCount = 5;
  if (n < kCount) return kFirst[n] * kj::SECONDS;
  return (8 + 60 * int64_t(n - kCount + 1)) * kj::SECONDS;
}

struct Segment {
  kj::String link;
  unsigned index = 0;
  Mac mac{};
};
class Announcer {
 public:
  virtual ~Announcer() noexcept(false) = default;
  // Sends to all hosts of the link.
  virtual void announce(const Segment& segment, const Ip& address, unsigned n) = 0;
};
kj::Own<Announcer> makeAnnouncer();

}  // namespace talos::vipd
