#include "common/net/ip.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/testing/test-ip.h"

namespace talos {
namespace {

// Catches: accepting shorthand or trailing text that another program would read differently.
TEST(Ip, RefusesWhatIsNotOneAddress) {
  for (kj::StringPtr bad : {"", "10.0.0", "010.0.0.1", "10.0.0.1 ", "10.0.0.1/24", "fe80::1%eth0",
                            "1:2:3", "256.0.0.1", "::g"}) {
    EXPECT_TRUE(Ip::parse(bad) == nullptr) << bad.cStr();
  }
  EXPECT_TRUE(Ip::parse(kj::StringPtr("10.0.0.1\0x", 10)) == nullptr);
}

// Catches: two spellings of one address taken for two machines.
TEST(Ip, HasOneSpelling) {
  struct Case {
    kj::StringPtr text, canonical;
    bool loopback;
  };
  for (auto& c :
       {Case{"10.5.0.2", "10.5.0.2", false}, Case{"127.3.2.1", "127.3.2.1", true},
        Case{"::1", "::1", true}, Case{"FD00:0::0001", "fd00::1", false},
        Case{"::ffff:10.5.0.2", "10.5.0.2", false}, Case{"::ffff:127.0.0.1", "127.0.0.1", true}}) {
    auto address = Ip::require(c.text).unmapped();
    EXPECT_EQ(address.toString(), c.canonical);
    EXPECT_EQ(address.isLoopback(), c.loopback) << c.text.cStr();
    EXPECT_FALSE(address.isMapped());
  }
  EXPECT_STREQ(ip("::ffff:10.5.0.2").toString().cStr(), "::ffff:10.5.0.2");
  EXPECT_TRUE(ip("::ffff:10.5.0.2").isMapped());
}

// Catches: a text that only looks like an address reaching the kernel as 0.0.0.0.
TEST(Ip, SaysWhatIsNone) {
  for (kj::StringPtr bad : {"node1"_kj, "10.5.0.2:50000"_kj, "[::1]"_kj, " 10.0.0.1"_kj}) {
    auto failure = kj::runCatchingExceptions([&] { Ip::require(bad); });
    EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kInvalidArgument);
    EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)),
              kj::str("\"", bad, "\" is not an IPv4 or IPv6 address"));
  }
}

// Catches: a port or an address that is lost or turned round on the way to the kernel and back, and
// a name that is cut short read beyond its end.
TEST(Endpoint, IsTheKernelsAndBack) {
  for (kj::StringPtr text : {"10.5.0.2:50000", "[fd00::1]:258", "[fe80::1]:1"}) {
    auto endpoint = KJ_ASSERT_NONNULL(Endpoint::parse(text), text);
    EXPECT_STREQ(endpoint.toString().cStr(), text.cStr());
    auto name = endpoint.socketName(7);
    EXPECT_EQ(name.family(), endpoint.address.family());
    EXPECT_TRUE(KJ_ASSERT_NONNULL(Endpoint::fromBytes(name.bytes())) == endpoint);
    EXPECT_TRUE(Endpoint::fromBytes(name.bytes().slice(0, name.size() - 1)) == nullptr);
  }
  auto name = KJ_ASSERT_NONNULL(Endpoint::parse("[fe80::1]:258")).socketName(7);
  auto& six = *reinterpret_cast<const sockaddr_in6*>(name.get());
  EXPECT_EQ(ntohs(six.sin6_port), 258);
  EXPECT_EQ(six.sin6_scope_id, 7u);
  EXPECT_TRUE(Endpoint::fromBytes(nullptr) == nullptr);
  EXPECT_TRUE(Endpoint::of(sockaddr_storage{}) == nullptr);
}

// Catches: a peer whose port was not given and is called at an arbitrary port.
TEST(Endpoint, RefusesWhatIsNoAddressAndPort) {
  for (kj::StringPtr bad : {"", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536",
                            "10.0.0.1:-1", "[fd00::1]", "[fd00::1:9", "vpn.example.org:51820"}) {
    EXPECT_TRUE(Endpoint::parse(bad) == nullptr) << bad.cStr();
  }
}

// Catches: a prefix length that is missing, signed, oversized or out of the family's range.
TEST(Prefix, RefusesBadLengths) {
  for (kj::StringPtr bad : {"10.0.0.1", "10.0.0.1/", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/+8",
                            "::1/129", "::/4294967297", "/8", "10.0.0.1/2 4"}) {
    EXPECT_TRUE(Prefix::parse(bad) == nullptr) << bad.cStr();
  }
}

// Catches: losing host bits, or printing another spelling than the kernel's tools do.
TEST(Prefix, KeepsHostBitsAndPrintsCanonically) {
  EXPECT_STREQ(prefix("10.5.0.2/24").toString().cStr(), "10.5.0.2/24");
  EXPECT_STREQ(prefix("10.5.0.2/24").masked().toString().cStr(), "10.5.0.0/24");
  EXPECT_STREQ(prefix("2001:DB8:0:0::1/61").masked().toString().cStr(), "2001:db8::/61");
  EXPECT_STREQ(Prefix::all(AF_INET).toString().cStr(), "0.0.0.0/0");
  for (kj::StringPtr text : {"100.99.10.9/9", "255.101.109.110/10", "fd00::/99", "fd00::1/100"}) {
    EXPECT_STREQ(prefix(text).toString().cStr(), text.cStr());
  }
  EXPECT_TRUE(prefix("10.5.0.2/24").contains(ip("10.5.0.255")));
  EXPECT_FALSE(prefix("10.5.0.2/24").contains(ip("10.5.1.2")));
  EXPECT_FALSE(prefix("0.0.0.0/0").contains(ip("::1")));
}

// Catches: a broadcast address on a point-to-point prefix, where it would be the peer's own.
TEST(Prefix, BroadcastOnlyWhereThereIsRoom) {
  EXPECT_STREQ(KJ_ASSERT_NONNULL(prefix("10.5.0.2/22").broadcast()).toString().cStr(),
               "10.5.3.255");
  EXPECT_TRUE(prefix("10.5.0.2/31").broadcast() == nullptr);
  EXPECT_TRUE(prefix("10.5.0.2/32").broadcast() == nullptr);
  EXPECT_TRUE(prefix("fd00::1/64").broadcast() == nullptr);
}

// Catches: an order that differs from the numbers, which decides the node's default address.
TEST(Ip, SortsByFamilyThenNumber) {
  EXPECT_LT(ip("9.0.0.1"), ip("10.0.0.1"));
  EXPECT_LT(ip("255.255.255.255"), ip("::1"));
  EXPECT_LT(ip("fd00::2"), ip("fd00::10"));
}

// Catches: taking a wrong mask for a short prefix.
TEST(MaskLength, OnlyContiguousMasks) {
  EXPECT_EQ(KJ_ASSERT_NONNULL(maskLength(ip("255.255.255.0"))), 24u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(maskLength(ip("0.0.0.0"))), 0u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(maskLength(ip("255.255.255.255"))), 32u);
  EXPECT_STREQ(maskOf(22).toString().cStr(), "255.255.252.0");
  EXPECT_TRUE(maskLength(ip("255.0.255.0")) == nullptr);
  EXPECT_TRUE(maskLength(ip("0.0.0.255")) == nullptr);
  EXPECT_TRUE(maskLength(ip("::")) == nullptr);
}

// Catches: a URL or a Host header in which the port is a part of an IPv6 address.
TEST(HostInUrl, Ipv6AddressesHaveBrackets) {
  EXPECT_STREQ(hostInUrl("10.5.0.1").cStr(), "10.5.0.1");
  EXPECT_STREQ(hostInUrl("fd00::1").cStr(), "[fd00::1]");
  EXPECT_STREQ(hostInUrl("store.example", 443).cStr(), "store.example:443");
  EXPECT_STREQ(hostInUrl("fd00::1", 443).cStr(), "[fd00::1]:443");
}

// Catches: treating an address that no other node can use as a node address.
TEST(Ip, KnowsSpecialRanges) {
  EXPECT_TRUE(ip("127.9.9.9").isLoopback());
  EXPECT_TRUE(ip("::1").isLoopback());
  EXPECT_FALSE(ip("::2").isLoopback());
  EXPECT_TRUE(ip("169.254.1.1").isLinkLocal());
  EXPECT_TRUE(ip("febf::1").isLinkLocal());
  EXPECT_FALSE(ip("fec0::1").isLinkLocal());
  EXPECT_TRUE(ip("239.1.1.1").isMulticast());
  EXPECT_TRUE(ip("ff02::1").isMulticast());
  for (auto none : {"0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1"}) {
    EXPECT_FALSE(ip(none).isUnicast()) << none;
  }
  EXPECT_TRUE(ip("fe80::1").isUnicast());
}

}  // namespace
}  // namespace talos
