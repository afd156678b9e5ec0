#include "vipd/vip-announcement.h"

#include <kj/debug.h>
#include <kj/io.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

namespace talos::vipd {
namespace {

constexpr Mac kEverybody = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr int kHopLimit = 255;  // for neighbour discovery: hosts ignore packets that a router
                                // forwarded

void put(kj::ArrayPtr<kj::byte> packet, size_t at, kj::ArrayPtr<const kj::byte> bytes) {
  KJ_ASSERT(at + bytes.size() <= packet.size());
  memcpy(packet.begin() + at, bytes.begin(), bytes.size());
}
kj::ArrayPtr<const kj::byte> bytesOf(const Mac& mac) {
  return kj::arrayPtr(mac.data(), mac.size());
}

kj::AutoCloseFd open(int family, int type, int protocol) {
  int fd;
  KJ_SYSCALL(fd = ::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  return kj::AutoCloseFd(fd);
}

void sendArp(const Segment& segment, kj::ArrayPtr<const kj::byte> packet) {
  auto fd = open(AF_PACKET, SOCK_DGRAM, 0);
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_protocol = htons(ETHERTYPE_ARP);
  to.sll_ifindex = static_cast<int>(segment.index);
  to.sll_halen = kEverybody.size();
  memcpy(to.sll_addr, kEverybody.data(), kEverybody.size());
  KJ_SYSCALL(
      sendto(fd, packet.begin(), packet.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof(to)));
}

void sendAdvertisement(const Segment& segment, kj::ArrayPtr<const kj::byte> packet) {
  auto fd = open(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
  icmp6_filter nothing;
  ICMP6_FILTER_SETBLOCKALL(&nothing);
  KJ_SYSCALL(setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &nothing, sizeof(nothing)));
  KJ_SYSCALL(setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &kHopLimit, sizeof(kHopLimit)));
  auto to = Endpoint{Ip::require("ff02::1"), 0}.socketName(segment.index);
  KJ_SYSCALL(sendto(fd, packet.begin(), packet.size(), 0, to.get(), to.size()));
}

class RealAnnouncer final : public Announcer {
 public:
  void announce(const Segment& segment, const Ip& address, unsigned n) override {
    if (address.family() == AF_INET) {
      auto kind = n % 2 == 0 ? ArpKind::kReply : ArpKind::kRequest;
      sendArp(segment, gratuitousArp(segment.mac, address, kind));
    } else {
      sendAdvertisement(segment, unsolicitedAdvertisement(segment.mac, address));
    }
  }
};

}  // namespace

kj::Array<kj::byte> gratuitousArp(const Mac& mac, const Ip& address, ArpKind kind) {
  auto packet = kj::heapArray<kj::byte>(28);
  constexpr kj::byte kHead[] = {0, 1, 8, 0, 6, 4, 0};  // Ethernet, IPv4, their lengths
  bool reply = kind == ArpKind::kReply;
  put(packet, 0, kHead);
  packet[7] = reply ? 2 : 1;
  put(packet, 8, bytesOf(mac));
  put(packet, 14, address.bytes());
  put(packet, 18, bytesOf(reply ? mac : kEverybody));
  put(packet, 24, address.bytes());
  return packet;
}

kj::Array<kj::byte> unsolicitedAdvertisement(const Mac& mac, const Ip& address) {
  auto packet = kj::heapArray<kj::byte>(32);
  memset(packet.begin(), 0, packet.size());
  packet[0] = ND_NEIGHBOR_ADVERT;
  packet[4] = 0x20;  // overrides the neighbours' caches
  put(packet, 8, address.bytes());
  packet[24] = ND_OPT_TARGET_LINKADDR;
  packet[25] = 1;  // in units of 8 bytes
  put(packet, 26, bytesOf(mac));
  return packet;
}

kj::Own<Announcer> makeAnnouncer() {
  return kj::heap<RealAnnouncer>();
}

}  // namespace talos::vipd
