// The packets on the link. Needs root.
#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <linux/if_addr.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <poll.h>
#include <string.h>

#include "common/netlink/test-netlink.h"
#include "common/testing/test-namespace.h"
#include "vipd/vip-announcement.h"

namespace talos::vipd {
namespace {

// Returns the first frame of this kind, from its Ethernet header on. Repeats the announcement until
// it arrives: a link that is up drops frames until its kernel has noticed the carrier.
kj::Array<kj::byte> hear(int fd, uint16_t kind, size_t at, kj::byte value,
                         kj::FunctionParam<void()> say) {
  for (int tries = 0; tries < 300; ++tries) {
    say();
    pollfd ready{fd, POLLIN, 0};
    for (;;) {
      int count;
      KJ_SYSCALL(count = poll(&ready, 1, 200));
      if (count == 0) break;
      kj::byte frame[2048];
      ssize_t size;
      KJ_SYSCALL(size = recv(fd, frame, sizeof(frame), 0));
      if (size <= ssize_t(at) || frame[12] != kind >> 8 || frame[13] != (kind & 0xff)) continue;
      if (frame[at] == value) return kj::heapArray<kj::byte>(kj::arrayPtr(frame, size));
    }
  }
  KJ_FAIL_REQUIRE("nothing was heard within a minute");
}

// Catches: an announcement that the kernel refuses, that goes to one host only, out of another
// link, or that neighbours drop: a hop limit below 255, a wrong checksum.
TEST(AnnouncementKernel, EverybodyOnTheLinkHearsIt) {
  inNamespace([] {
    auto kernel = netlink::openKernel();
    unsigned left = netlink::addVeth(*kernel, "left", "right");
    unsigned right = netlink::indexOf(*kernel, "right");
    netlink::setUp(*kernel, left);
    netlink::setUp(*kernel, right);
    // A link gets this address by itself after a second of duplicate detection.
    netlink::change(*kernel,
                    netlink::AddAddress{{.link = left,
                                         .prefix = KJ_ASSERT_NONNULL(Prefix::parse("fe80::77/64")),
                                         .scope = RT_SCOPE_LINK,
                                         .flags = IFA_F_NODAD}});
    int fd;
    KJ_SYSCALL(fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)));
    kj::AutoCloseFd ear(fd);
    sockaddr_ll on{};
    on.sll_family = AF_PACKET;
    on.sll_protocol = htons(ETH_P_ALL);
    on.sll_ifindex = int(right);
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&on), sizeof(on)));

    Segment segment{kj::str("left"), left, {}};
    auto link = KJ_ASSERT_NONNULL(netlink::findLink(*kernel, "left"));
    memcpy(segment.mac.data(), link.hardwareAddress.begin(), sizeof(Mac));
    auto mac = kj::encodeHex(link.hardwareAddress);
    auto announcer = makeAnnouncer();
    auto say = [&](kj::StringPtr address, unsigned n) {
      return [&announcer, &segment, ip = Ip::require(address), n] {
        announcer->announce(segment, ip, n);
      };
    };
    auto arp = hear(fd, ETHERTYPE_ARP, 21, 2, say("10.5.0.50", 0));
    EXPECT_STREQ(
        kj::encodeHex(arp.slice(0, 42)).cStr(),
        kj::str("ffffffffffff", mac, "0806", "0001080006040002", mac, "0a050032", mac, "0a050032")
            .cStr());
    hear(fd, ETHERTYPE_ARP, 21, 1, say("10.5.0.50", 1));

    auto packet = hear(fd, ETHERTYPE_IPV6, 54, 136, say("fd00::50", 0));
    EXPECT_STREQ(kj::encodeHex(packet.slice(0, 6)).cStr(), "333300000001");
    EXPECT_EQ(255, packet[21]);  // hop limit
    EXPECT_STREQ(kj::encodeHex(packet.slice(58, 86)).cStr(),
                 kj::str("20000000fd000000000000000000000000000050", "0201", mac).cStr());
    uint32_t sum = 32 + 58;  // the pseudo header: length and next header, then both addresses
    for (size_t i = 22; i < 86; i += 2) sum += packet[i] << 8 | packet[i + 1];
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    EXPECT_EQ(0xffffu, sum);
  });
}

}  // namespace
}  // namespace talos::vipd
