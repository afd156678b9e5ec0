#include "common/netlink/netlink-codec.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <string.h>

#include "common/base/error.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-ip.h"

namespace talos::netlink {
namespace {

// Decodes a request, which has the form in which the kernel would report the object.
template <typename T>
T roundTrip(const Change& change) {
  auto decoded = decode(encode(change));
  KJ_ASSERT(decoded.problem == nullptr && decoded.messages.size() == 1);
  return kj::mv(decoded.messages[0].body.get<T>());
}

// Catches: a wrong attribute number, order, padding or byte order in the commonest request.
TEST(NetlinkCodec, AddressRequestByteForByte) {
  Address address{.link = 3, .prefix = prefix("10.5.0.2/24"), .protocol = 116};
  EXPECT_STREQ(kj::encodeHex(encode(AddAddress{address})).cStr(),
               // length 56, RTM_NEWADDR 20, REQUEST|ACK|EXCL|CREATE, sequence, port
               "38000000"
               "1400"
               "0506"
               "00000000"
               "00000000"
               "02180000"
               "03000000"  // AF_INET, /24, no flags, global; index 3
               "08000200"
               "0a050002"  // IFA_LOCAL
               "08000100"
               "0a050002"  // IFA_ADDRESS
               "08000400"
               "0a0500ff"  // IFA_BROADCAST
               "05000b00"
               "74000000");  // IFA_PROTO
}

// Catches: an address that stays although its lifetime has ended; an address that is refused
// because it exists; a lifetime that the kernel refuses (preferred longer than valid).
TEST(NetlinkCodec, AddressThatEndsByteForByte) {
  Address address{.link = 3,
                  .prefix = prefix("10.5.0.50/32"),
                  .flags = IFA_F_NOPREFIXROUTE,
                  .protocol = kSharedAddress};
  EXPECT_STREQ(
      kj::encodeHex(encode(AddAddress{.address = address, .replace = true, .lifetime = 2})).cStr(),
      // length 76, RTM_NEWADDR 20, REQUEST|ACK|REPLACE|CREATE, sequence, port
      "4c000000"
      "1400"
      "0505"
      "00000000"
      "00000000"
      "02200000"
      "03000000"  // AF_INET, /32, no flags, global; index 3
      "08000200"
      "0a050032"  // IFA_LOCAL
      "08000100"
      "0a050032"  // IFA_ADDRESS
      "08000800"
      "00020000"  // IFA_FLAGS
      "05000b00"
      "76000000"  // IFA_PROTO
      "14000600"
      "00000000"  // IFA_CACHEINFO: preferred
      "02000000"  // valid
      "0000000000000000");
}

// Catches: a controller that reads the whole network several times a second because the lifetime of
// a shared address is renewed; a controller that misses the address's arrival.
TEST(NetlinkCodec, RenewedLifetimesOfSharedAddressesAreNoNews) {
  auto said = [](uint8_t protocol, uint32_t created, uint32_t updated) {
    MessageBuilder out(RTM_NEWADDR, 0);
    out.header<ifaddrmsg>().ifa_family = AF_INET;
    out.putU8(IFA_PROTO, protocol);
    ifa_cacheinfo times{.ifa_prefered = 2, .ifa_valid = 2, .cstamp = created, .tstamp = updated};
    out.put(IFA_CACHEINFO, kj::arrayPtr(&times, 1).asBytes());
    return noticeOf(out.finish()).addresses;
  };
  EXPECT_TRUE(said(kSharedAddress, 1000, 1000));
  EXPECT_FALSE(said(kSharedAddress, 1000, 1033));
  EXPECT_TRUE(said(0, 1000, 1033));
  MessageBuilder gone(RTM_DELADDR, 0);
  gone.header<ifaddrmsg>().ifa_family = AF_INET;
  gone.putU8(IFA_PROTO, kSharedAddress);
  EXPECT_TRUE(noticeOf(gone.finish()).addresses);
}

// Catches: a length of nested attributes that does not cover their content.
TEST(NetlinkCodec, BridgeRequestByteForByte) {
  EXPECT_STREQ(kj::encodeHex(encode(AddLink{kj::str("br0"), Bridge{}})).cStr(),
               "38000000"
               "1000"
               "0506"
               "00000000"
               "00000000"
               "00000000"
               "00000000"
               "00000000"
               "00000000"
               "08000300"
               "62723000"  // IFLA_IFNAME "br0"
               "10001280"  // IFLA_LINKINFO, nested
               "0b000100"
               "62726964"
               "67650000");  // IFLA_INFO_KIND "bridge"
}

// Catches: fields lost or swapped between encoding and decoding.
TEST(NetlinkCodec, RoutesSurviveTheRoundTrip) {
  Route route{.destination = prefix("10.9.0.0/16"),
              .gateway = ip("10.5.0.1"),
              .link = 7,
              .metric = 10,
              .protocol = 116,
              .source = ip("10.5.0.2")};
  auto back = roundTrip<Route>(AddRoute{route});
  EXPECT_EQ(back.destination, route.destination);
  EXPECT_TRUE(back.gateway == route.gateway);
  EXPECT_TRUE(back.source == route.source);
  EXPECT_EQ(back.link, 7u);
  EXPECT_EQ(back.metric, 10u);
  EXPECT_EQ(back.table, unsigned(RT_TABLE_MAIN));
  EXPECT_EQ(back.protocol, 116);

  Route six{
      .destination = Prefix::all(AF_INET6), .gateway = ip("fe80::1"), .link = 2, .table = 1000};
  auto sixBack = roundTrip<Route>(AddRoute{six, true});
  EXPECT_EQ(sixBack.destination, six.destination);
  EXPECT_EQ(sixBack.table, 1000u);

  route.mtu = 1400;
  route.flags = RTNH_F_ONLINK;
  back = roundTrip<Route>(AddRoute{route});
  EXPECT_EQ(back.mtu, 1400u);
  EXPECT_EQ(back.flags, uint32_t(RTNH_F_ONLINK));
  // IPv6 names loopback for a route without a gateway.
  Route nowhere{.destination = prefix("2001:db8::/32"), .link = 1, .type = RTN_BLACKHOLE};
  auto nowhereBack = roundTrip<Route>(AddRoute{nowhere});
  EXPECT_EQ(nowhereBack.type, RTN_BLACKHOLE);
  EXPECT_EQ(nowhereBack.link, 0u);

  Route via{.destination = prefix("10.0.0.0/8"), .gateway = ip("fe80::1"), .link = 2};
  EXPECT_TRUE(roundTrip<Route>(AddRoute{via}).gateway == via.gateway);
}

// Catches: the table of a VRF that is sent or read as another attribute; a peer without its name or
// mark.
TEST(NetlinkCodec, AVrfAndAPairSurviveTheRoundTrip) {
  auto vrf = roundTrip<Link>(AddLink{kj::str("red"), Vrf{1077}});
  EXPECT_STREQ(vrf.kind.cStr(), "vrf");
  EXPECT_TRUE(vrf.vrfTable == 1077u);
  auto veth = encode(AddLink{kj::str("va"), Veth{kj::str("vb")}, 116});
  auto text = kj::encodeHex(veth);
  EXPECT_TRUE(roundTrip<Link>(AddLink{kj::str("va"), Veth{kj::str("vb")}}).kind == "veth");
  // VETH_INFO_PEER: a header of 16 bytes, IFLA_IFNAME and IFLA_GROUP.
  auto peer = std::string(32, '0') + "0700030076620000" + "08001b0074000000";
  EXPECT_NE(std::string(text.cStr()).find("24000180" + peer), std::string::npos) << text.cStr();
}

// Catches: a name that is cut at 15 characters and so makes another link than requested.
TEST(NetlinkCodec, RefusesLinkNamesThatDoNotFit) {
  for (kj::StringPtr name : {"", "sixteencharacter"}) {
    auto e = kj::runCatchingExceptions([&] { encode(AddLink{kj::str(name), Bridge{}}); });
    EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kInvalidArgument);
    e = kj::runCatchingExceptions([&] { encode(AddLink{kj::str("a"), Veth{kj::str(name)}}); });
    EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kInvalidArgument);
  }
}

struct Raw {
  kj::Vector<kj::byte> bytes;
  template <typename T>
  Raw& add(T value) {
    bytes.addAll(kj::arrayPtr(reinterpret_cast<kj::byte*>(&value), sizeof(T)));
    return *this;
  }
  Raw& add(kj::StringPtr text) {
    bytes.addAll(text.asBytes());
    while (bytes.size() % 4 != 0) bytes.add(0);
    return *this;
  }
};

// Catches: an explanation of the kernel that is dropped, although it tells users what to do.
TEST(NetlinkCodec, ReadsTheExtendedAcknowledgement) {
  for (bool capped : {true, false}) {
    Raw raw;
    kj::StringPtr text = "Nexthop has invalid gateway";
    uint32_t repeated = capped ? 0 : 8;
    raw.add<uint32_t>(16 + 20 + repeated + 4 + 28).add<uint16_t>(NLMSG_ERROR);
    raw.add<uint16_t>(NLM_F_ACK_TLVS | (capped ? NLM_F_CAPPED : 0))
        .add<uint32_t>(9)
        .add<uint32_t>(0);
    raw.add<int32_t>(-ENETUNREACH).add<uint32_t>(24).add<uint16_t>(24).add<uint16_t>(0);
    raw.add<uint32_t>(9).add<uint32_t>(0);
    if (!capped) raw.add<uint64_t>(0);
    raw.add<uint16_t>(4 + 28).add<uint16_t>(NLMSGERR_ATTR_MSG).add(text);
    auto decoded = decode(raw.bytes);
    ASSERT_EQ(decoded.messages.size(), 1u);
    auto& ack = decoded.messages[0].body.get<Ack>();
    EXPECT_EQ(decoded.messages[0].sequence, 9u);
    EXPECT_EQ(ack.code, ENETUNREACH);
    EXPECT_STREQ(ack.message.cStr(), text.cStr()) << capped;
  }
}

// Catches: lengths that lead outside the datagram, including lengths that are negative as an int.
TEST(NetlinkCodec, HostileLengthsAreAProblemNotARead) {
  for (uint32_t length : {0u, 15u, 17u, 64u, 0x7fffffffu, 0x80000000u, 0x80000010u, 0xffffffffu}) {
    Raw raw;
    raw.add<uint32_t>(length).add<uint16_t>(RTM_NEWLINK).add<uint16_t>(0).add<uint64_t>(0);
    auto decoded = decode(raw.bytes);
    EXPECT_EQ(decoded.messages.size(), 0u) << length;
    EXPECT_TRUE(decoded.problem != nullptr) << length;
  }
  EXPECT_TRUE(decode(nullptr).problem == nullptr);
}

// Catches: a truncated message that is taken for a whole one.
TEST(NetlinkCodec, TruncatedMessageIsReportedWithItsType) {
  Raw raw;
  raw.add<uint32_t>(16 + 4).add<uint16_t>(NLMSG_ERROR).add<uint16_t>(0).add<uint64_t>(0);
  raw.add<int32_t>(-ENODEV);
  auto decoded = decode(raw.bytes);
  EXPECT_EQ(decoded.messages.size(), 0u);
  EXPECT_STREQ(KJ_ASSERT_NONNULL(decoded.problem).cStr(), "message of type 2 with only 4 bytes");
}

// Catches: structures at unaligned places that are read wrongly or not at all.
TEST(NetlinkCodec, ReadsFromAnyAddress) {
  auto request = encode(AddLink{kj::str("br0"), Bridge{}});
  auto place = kj::heapArray<kj::byte>(request.size() + 8);
  for (size_t offset = 0; offset < 8; ++offset) {
    auto bytes = place.slice(offset, offset + request.size());
    memcpy(bytes.begin(), request.begin(), request.size());
    auto decoded = decode(bytes);
    ASSERT_EQ(decoded.messages.size(), 1u) << offset;
    EXPECT_TRUE(decoded.problem == nullptr) << offset;
    EXPECT_STREQ(decoded.messages[0].body.get<Link>().name.cStr(), "br0");
    EXPECT_STREQ(decoded.messages[0].body.get<Link>().kind.cStr(), "bridge");
  }
}

// Catches: a monitor that reads everything again because of a bridge's port; a monitor that takes a
// notice that it could not read completely for a complete one.
TEST(NetlinkCodec, NoticesSayWhatToReadAgain) {
  auto notice = [](uint8_t family, uint32_t behind) {
    Raw raw;
    raw.add<uint32_t>(16 + 16).add<uint16_t>(RTM_NEWLINK).add<uint16_t>(0).add<uint64_t>(0);
    ifinfomsg header{};
    header.ifi_family = family;
    raw.add(header);
    for (uint32_t i = 0; i < behind; ++i) raw.add<uint32_t>(0);
    return noticeOf(raw.bytes);
  };
  EXPECT_TRUE(notice(AF_UNSPEC, 0).links);
  EXPECT_FALSE(notice(AF_BRIDGE, 0).links);
  EXPECT_FALSE(notice(AF_UNSPEC, 0).overrun);
  EXPECT_TRUE(notice(AF_UNSPEC, 1).overrun);
}

// Catches: a list of routes with the local table, which has up to four for each address.
TEST(NetlinkCodec, RoutesAreAskedForOfOneTable) {
  EXPECT_STREQ(kj::encodeHex(encodeRouteDump(RT_TABLE_MAIN)).cStr(),
               "1c000000"
               "1a00"
               "0103"
               "00000000"
               "00000000"
               "00000000"
               "fe000000"  // RT_TABLE_MAIN
               "00000000");
  EXPECT_STREQ(kj::encodeHex(encodeRouteDump(1000)).cStr(),
               "24000000"
               "1a00"
               "0103"
               "00000000"
               "00000000"
               "00000000"
               "00000000"
               "00000000"
               "08000f00"
               "e8030000");  // RTA_TABLE
}

// Catches: an attribute whose length is 0 (an endless loop) or larger than the message.
TEST(NetlinkCodec, HostileAttributesEndTheWalk) {
  for (uint16_t length : {0, 3, 5, 200, 0xffff}) {
    Raw raw;
    raw.add<uint32_t>(16 + 16 + 4).add<uint16_t>(RTM_NEWLINK).add<uint16_t>(0).add<uint64_t>(0);
    ifinfomsg header{};
    header.ifi_index = 5;
    raw.add(header).add<uint16_t>(length).add<uint16_t>(IFLA_IFNAME);
    auto decoded = decode(raw.bytes);
    ASSERT_EQ(decoded.messages.size(), 1u) << length;
    EXPECT_EQ(decoded.messages[0].body.get<Link>().index, 5u);
    EXPECT_STREQ(decoded.messages[0].body.get<Link>().name.cStr(), "");
  }
}

// Catches: prefix lengths that do not fit the family and would be used as shift counts later.
TEST(NetlinkCodec, OversizedPrefixLengthsAreNotAddresses) {
  Address address{.link = 1, .prefix = {ip("10.0.0.1"), 33}};
  EXPECT_TRUE(decode(encode(AddAddress{address})).messages[0].body.is<Other>());
}

// Catches: a subject that is lost when two notices are joined, or that wakes no reader.
TEST(NetlinkNotice, NothingIsLostWhenTwoAreJoined) {
  for (auto subject : {&Notice::links, &Notice::addresses, &Notice::routes, &Notice::rules,
                       &Notice::neighbours, &Notice::overrun}) {
    Notice one, all;
    EXPECT_FALSE(one.any());
    one.*subject = true;
    EXPECT_TRUE(one.any());
    all |= one;
    all |= Notice();
    EXPECT_TRUE(all.*subject);
  }
}

}  // namespace
}  // namespace talos::netlink
