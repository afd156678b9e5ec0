// Packets as they are on the wire, written by hand from the RFCs, and packets that break the RFCs.
#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/testing/test-ip.h"
#include "networkd/dhcp/dhcp-message4.h"
#include "networkd/dhcp/dhcp-message6.h"
#include "networkd/dhcp/dhcp-packet4.h"
#include "networkd/dhcp/router-advertisement.h"

namespace talos::networkd::dhcp {
namespace {

kj::Array<kj::byte> octets(std::initializer_list<int> list) {
  return KJ_MAP(value, kj::ArrayPtr<const int>(list.begin(), list.size()))->kj::byte {
    return static_cast<kj::byte>(value);
  };
}
kj::Array<kj::byte> joined(std::initializer_list<Bytes> parts) {
  Writer out;
  for (auto part : parts) out.bytes(part);
  return out.finish();
}

// A reply up to and including the cookie; `file` and `sname` are filled as given.
kj::Array<kj::byte> reply(Bytes options, Bytes serverName = nullptr, Bytes file = nullptr) {
  Writer out;
  out.u8(2).u8(1).u8(6).u8(0).u32(0x01020304).u16(0).u16(0);
  out.ip(ip("0.0.0.0")).ip(ip("10.0.0.9")).ip(ip("10.0.0.1")).ip(ip("0.0.0.0"));
  out.bytes(octets({2, 0, 0, 0, 0, 1})).zeros(10);
  out.bytes(serverName).zeros(64 - serverName.size()).bytes(file).zeros(128 - file.size());
  out.u32(0x63825363).bytes(options);
  return out.finish();
}
Message4 good(Bytes options, Bytes serverName = nullptr, Bytes file = nullptr) {
  auto parsed = parse4(reply(options, serverName, file));
  return kj::mv(KJ_ASSERT_NONNULL(parsed.message, parsed.problem));
}
kj::StringPtr refusal(Bytes bytes) {
  auto parsed = parse4(bytes);
  return parsed.message == nullptr ? parsed.problem : "it was taken"_kj;
}
const auto kAck = octets({53, 1, 5});

TEST(Message4, AnAckIsReadFieldByField) {
  auto m = good(joined({kAck, octets({54, 4, 10, 0, 0, 1}), octets({51, 4, 0, 0, 14, 16}),
                        octets({58, 4, 0, 0, 7, 8}), octets({59, 4, 0, 0, 12, 78}),
                        octets({1, 4, 255, 255, 255, 0}), octets({3, 8, 10, 0, 0, 1, 10, 0, 0, 2}),
                        octets({6, 4, 10, 0, 0, 53}), octets({12, 5, 'n', 'o', 'd', 'e', 0}),
                        octets({15, 2, 'c', 'd'}), octets({26, 2, 5, 120}),
                        octets({42, 4, 10, 0, 0, 123}), octets({255})}));
  EXPECT_TRUE(m.reply);
  EXPECT_EQ(m.type, Message4::Type::kAck);
  EXPECT_EQ(m.exchange, 0x01020304u);
  EXPECT_TRUE(m.yours == ip("10.0.0.9") && m.next == ip("10.0.0.1"));
  EXPECT_TRUE(m.server == ip("10.0.0.1"));
  EXPECT_TRUE(m.lease == 3600u && m.renewal == 1800u && m.rebinding == 3150u);
  EXPECT_TRUE(m.prefixLength == 24u && m.mtu == uint16_t(1400));
  EXPECT_EQ(kj::strArray(m.routers, " "), "10.0.0.1 10.0.0.2");
  EXPECT_EQ(kj::strArray(m.resolvers, " "), "10.0.0.53");
  EXPECT_EQ(kj::strArray(m.timeServers, " "), "10.0.0.123");
  EXPECT_EQ(m.hostname, "node");
  EXPECT_EQ(m.domain, "cd");
  EXPECT_TRUE(m.classlessRoutes == nullptr);
}

// Catches: the second piece of an option that replaces the first (RFC 3396), also across fields.
TEST(Message4, PiecesOfAnOptionAreJoinedInTheOrderOfTheFields) {
  auto routes = octets({121, 5, 24, 192, 168, 7, 10, 121, 3, 0, 0, 1});
  auto m = good(joined({kAck, octets({52, 1, 3}), routes, octets({255})}),
                octets({6, 4, 10, 0, 0, 3, 255}), octets({6, 4, 10, 0, 0, 2, 255}));
  auto& list = KJ_ASSERT_NONNULL(m.classlessRoutes);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_TRUE(list[0] == (Route4{prefix("192.168.7.0/24"), ip("10.0.0.1")}));
  EXPECT_EQ(kj::strArray(m.resolvers, " "), "10.0.0.2 10.0.0.3");
  // Without option overload these fields are texts.
  EXPECT_EQ(good(kAck, nullptr, octets({6, 4, 10, 0, 0, 2, 255})).resolvers.size(), 0u);
}

TEST(Message4, ClasslessRoutesOfEveryWidth) {
  struct Row {
    kj::Array<kj::byte> option;
    kj::StringPtr shown;  // "broken": the option is ignored
  } rows[] = {
      {octets({0, 10, 0, 0, 1}), "0.0.0.0/0>10.0.0.1"},
      {octets({32, 1, 2, 3, 4, 0, 0, 0, 0}), "1.2.3.4/32>0.0.0.0"},
      {octets({9, 10, 255, 10, 0, 0, 1}), "10.128.0.0/9>10.0.0.1"},  // the bits after the prefix
                                                                     // are cut
      {octets({8, 10, 10, 0, 0, 1, 0, 10, 0, 0, 2}), "10.0.0.0/8>10.0.0.1 0.0.0.0/0>10.0.0.2"},
      {octets({}), ""},
      {octets({33, 1, 2, 3, 4, 5, 10, 0, 0, 1}), "broken"},
      {octets({24, 10, 0, 0, 10, 0, 0}), "broken"},
      {octets({8, 10, 10, 0, 0, 1, 16}), "broken"},
  };
  for (auto& row : rows) {
    auto m = good(joined({kAck, octets({121, int(row.option.size())}), row.option}));
    KJ_IF_MAYBE (routes, m.classlessRoutes) {
      auto shown = KJ_MAP(r, *routes) {
        return kj::str(r.destination, ">", r.gateway);
      };
      EXPECT_EQ(kj::strArray(shown, " "), row.shown);
    } else {
      EXPECT_EQ(row.shown, "broken");
    }
  }
}

// Catches: an option that is used although its length is wrong for its type. Catches: an endless
// list of routes, and half of a list.
TEST(Message4, AsManyRoutesAsAnybodyNeeds) {
  for (unsigned count : {64, 65}) {
    Message4 m;
    m.type = Message4::Type::kAck;
    m.hardwareAddress = octets({2, 0, 0, 0, 0, 1});
    auto& routes = m.classlessRoutes.emplace();
    for (unsigned i = 0; i < count; ++i) {
      routes.add(Route4{prefix(kj::str("10.", i, ".0.0/16")), ip("10.0.0.1")});
    }
    auto parsed = parse4(encode(m));
    KJ_IF_MAYBE (read, KJ_ASSERT_NONNULL(parsed.message).classlessRoutes) {
      EXPECT_EQ(read->size(), 64u);
      EXPECT_EQ(count, 64u);
    } else {
      EXPECT_EQ(count, 65u);
    }
  }
}

TEST(Message4, OptionsOfAWrongLengthAreNotThere) {
  auto m = good(
      joined({kAck, octets({54, 3, 1, 2, 3}), octets({51, 2, 0, 9}), octets({1, 4, 255, 0, 255, 0}),
              octets({3, 5, 1, 2, 3, 4, 5}), octets({26, 2, 0, 67}), octets({26, 0})}));
  EXPECT_TRUE(m.server == nullptr && m.lease == nullptr && m.prefixLength == nullptr);
  EXPECT_TRUE(m.routers.size() == 0 && m.mtu == nullptr);
}

TEST(Message4, InvalidBytesAreNoMessage) {
  auto whole = reply(joined({kAck, octets({255})}));
  EXPECT_EQ(refusal(whole.slice(0, 239)), "it is too short");
  auto broken = [&](size_t at, kj::byte value) {
    auto copy = kj::heapArray(whole.asPtr());
    copy[at] = value;
    return copy;
  };
  EXPECT_EQ(refusal(broken(0, 3)), "it is neither request nor reply");
  EXPECT_EQ(refusal(broken(2, 17)), "its hardware address is too long");
  EXPECT_EQ(refusal(broken(236, 0)), "it is BOOTP, not DHCP");
  EXPECT_EQ(refusal(reply(octets({255, 53, 1, 5}))), "its type is unknown");
  EXPECT_EQ(refusal(reply(octets({53, 1, 9}))), "its type is unknown");
  EXPECT_EQ(refusal(reply(joined({kAck, octets({12, 9, 'x'})}))), "an option goes beyond its end");
  EXPECT_EQ(refusal(reply(joined({kAck, octets({12})}))), "an option goes beyond its end");
  EXPECT_EQ(refusal(reply(joined({kAck, octets({52, 1, 1})}), nullptr, octets({12, 200}))),
            "an option goes beyond its end");
}

// Catches: a server that writes into files of this machine.
TEST(Message4, NamesAreNamesOrNothing) {
  for (auto bad :
       {"a b"_kj, "a\nnameserver 6.6.6.6"_kj, "a..b"_kj, "."_kj, "a/b"_kj, "\xff"_kj, ".a"_kj}) {
    auto m = good(joined({kAck, octets({12, int(bad.size())}), bad.asBytes(),
                          octets({15, int(bad.size())}), bad.asBytes()}));
    EXPECT_EQ(kj::str(m.hostname, m.domain), "") << bad.cStr();
  }
  EXPECT_EQ(good(joined({kAck, octets({15, 4, 'a', '.', 'b', '.'})})).domain, "a.b");
}

TEST(Message4, SearchListsWithPointers) {
  struct Row {
    kj::Array<kj::byte> option;
    kj::StringPtr names;
  } rows[] = {
      {octets({3, 'e', 'n', 'g', 5,   'a', 'p', 'p', 'l', 'e', 3,   'c',  'o', 'm',
               0, 9,   'm', 'a', 'r', 'k', 'e', 't', 'i', 'n', 'g', 0xc0, 4}),
       "eng.apple.com marketing.apple.com"},             // the example of RFC 3397
      {octets({1, 'a', 0, 0xc0, 0, 1, 'b', 0}), "a b"},  // a duplicate is dropped
      {octets({0xc0, 0}), ""},                           // points at itself
      {octets({1, 'a', 0xc0, 3, 0, 1, 'b', 0}), ""},     // points forward
      {octets({1, 'a', 0, 1, 'b', 0xc0, 3}), "a"},       // points into itself: a loop
      {octets({1, 'a', 0, 1, 'b', 0xc0}), "a"},
      {octets({1, 'a', 0, 5, 'b'}), "a"},
      {octets({1, ' ', 0, 1, 'b', 0}), "b"},
      {octets({0, 0, 1, 'b', 0}), "b"},
      {octets({0x41, 'a', 0}), ""},
  };
  for (auto& row : rows) {
    auto m = good(joined({kAck, octets({119, int(row.option.size())}), row.option}));
    EXPECT_EQ(kj::strArray(m.search, " "), row.names);
  }
}

TEST(Message4, WhatIsWrittenIsReadBack) {
  Message4 m;
  m.hardwareAddress = octets({2, 0, 0, 0, 0, 1});
  m.exchange = 7;
  m.seconds = 3;
  m.broadcast = true;
  m.client = ip("10.0.0.9");
  m.type = Message4::Type::kRequest;
  m.server = ip("10.0.0.1");
  m.requested = ip("10.0.0.9");
  m.lease = kInfinite;
  m.renewal = 4u;
  m.rebinding = 5u;
  m.prefixLength = 22u;
  m.routers.add(ip("10.0.0.1"));
  m.resolvers.add(ip("10.0.0.2"));
  m.timeServers.add(ip("10.0.0.3"));
  m.classlessRoutes = kj::Vector<Route4>();
  for (unsigned i = 0; i < 60; ++i) {  // more than one piece
    KJ_ASSERT_NONNULL(m.classlessRoutes).add(Route4{prefix("192.168.1.0/24"), ip("10.0.0.1")});
  }
  m.search.add(kj::str("a.example"));
  m.hostname = kj::str("node");
  m.domain = kj::str("example");
  m.mtu = uint16_t(9000);
  m.maximumSize = uint16_t(1472);
  m.clientIdentifier = octets({1, 2, 0, 0, 0, 0, 1});
  m.parameters = octets({1, 3, 121});
  m.text = kj::str("words");
  auto bytes = encode(m);
  auto parsed = parse4(bytes);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(parsed.message) == m);
  EXPECT_EQ(encode(Message4()).size(), 300u);
}

// --- packets

const auto kOwn = octets({2, 0, 0, 0, 0, 1}), kOther = octets({2, 0, 0, 0, 0, 2});

TEST(Packet4, OnlyWholeDatagramsOfOurPortPass) {
  auto payload = octets({1, 2, 3});
  auto packet = wrap4(ip("10.0.0.1"), 67, ip("10.0.0.9"), 68, payload);
  auto unwrapped = [&](size_t at, int value, bool checked = true) {
    auto copy = kj::heapArray(packet.asPtr());
    copy[at] = static_cast<kj::byte>(value);
    return unwrap4(copy, 68, checked) != nullptr;
  };
  auto passed = KJ_ASSERT_NONNULL(unwrap4(packet, 68, true));
  EXPECT_TRUE(passed.from == ip("10.0.0.1") && passed.to == ip("10.0.0.9"));
  EXPECT_TRUE(passed.payload == payload);
  EXPECT_TRUE(unwrap4(packet, 67, true) == nullptr);
  EXPECT_TRUE(unwrap4(packet.slice(0, packet.size() - 1), 68, true) == nullptr);
  EXPECT_TRUE(unwrap4(joined({packet, octets({0, 0, 0})}), 68, true) != nullptr) << "padding";
  EXPECT_FALSE(unwrapped(0, 0x65));
  EXPECT_FALSE(unwrapped(12, 11)) << "header checksum";
  EXPECT_FALSE(unwrapped(30, 9)) << "payload's checksum";
  EXPECT_TRUE(unwrapped(30, 9, false));
  // Corrects the checksums afterwards: for fragments and other protocols.
  auto refitted = [&](size_t at, int value) {
    auto copy = kj::heapArray(packet.asPtr());
    copy[at] = static_cast<kj::byte>(value);
    copy[10] = copy[11] = 0;
    auto sum = internetChecksum({copy.slice(0, 20)});
    copy[10] = sum >> 8;
    copy[11] = sum & 0xff;
    return unwrap4(copy, 68, false) != nullptr;
  };
  EXPECT_TRUE(refitted(8, 3));
  EXPECT_FALSE(refitted(9, 6));
  for (int total : {0, 19, 20, 27}) EXPECT_FALSE(refitted(3, total)) << "shorter than its headers";
  EXPECT_FALSE(refitted(6, 0x20)) << "more fragments";
  EXPECT_FALSE(refitted(7, 1)) << "a later fragment";
}

TEST(Packet4, SumsAsInTheRfc) {
  // RFC 1071 §3: 00 01 f2 03 f4 f5 f6 f7 has the sum ddf2.
  EXPECT_EQ(internetChecksum({octets({0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7})}), 0xffff - 0xddf2);
  EXPECT_EQ(internetChecksum({octets({0xab})}), 0xffff - 0xab00);
}

TEST(Arp, OnlyAnotherHostWithTheAddressConflicts) {
  auto address = ip("10.0.0.9");
  auto wouldConflict = [&](const Arp& arp) {
    auto parsed = KJ_ASSERT_NONNULL(parseArp(encode(arp)));
    return conflicts(parsed, kOwn, address);
  };
  EXPECT_FALSE(wouldConflict(probe(kOwn, address))) << "our own question, come back";
  EXPECT_TRUE(wouldConflict(probe(kOther, address))) << "it is about to take the address";
  EXPECT_TRUE(wouldConflict(announcement(kOther, address)));
  EXPECT_FALSE(wouldConflict(probe(kOther, ip("10.0.0.8"))));
  EXPECT_FALSE(wouldConflict(
      {Arp::Operation::kRequest, copyOf(kOther), ip("10.0.0.1"), copyOf(kOwn), address}))
      << "a server that looks whether the address is free";
  EXPECT_TRUE(wouldConflict(
      {Arp::Operation::kReply, copyOf(kOther), address, copyOf(kOwn), ip("0.0.0.0")}));
  EXPECT_TRUE(parseArp(encode(probe(kOwn, address)).slice(0, 27)) == nullptr);
}

// --- DHCPv6

TEST(Message6, AReplyIsReadFieldByField) {
  Message6 m;
  m.type = Message6::Type::kReply;
  m.exchange = 0xabcdef;
  m.client = linkLayerIdentifier(1, kOwn);
  m.server = linkLayerIdentifier(1, kOther);
  m.rapidCommit = true;
  m.elapsed = uint16_t(7);
  m.preference = uint8_t(255);
  m.wanted.add(23);
  m.resolvers.add(ip("fd00::53"));
  m.timeServers.add(ip("fd00::7b"));
  m.search.add(kj::str("a.example"));
  m.hostname = kj::str("node.example");
  m.refresh = 600u;
  m.longestSolicit = 3600u;
  m.longestInformation = 3601u;
  m.status = Status6{Status6::kSuccess, kj::str("all well")};
  Association6 association;
  association.id = 5;
  association.renewal = 10;
  association.rebinding = 20;
  association.addresses.add(
      Address6{ip("fd00::9"), 30, 40, Status6{Status6::kNotOnLink, kj::str("no")}});
  association.status = Status6{Status6::kNoBinding, kj::String()};
  m.associations.add(kj::mv(association));

  auto bytes = encode(m);
  EXPECT_TRUE(bytes.slice(0, 4) == octets({7, 0xab, 0xcd, 0xef}));
  EXPECT_TRUE(bytes.slice(4, 18) == octets({0, 1, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0, 1}));
  auto parsed = parse6(bytes);
  auto& read = KJ_ASSERT_NONNULL(parsed.message);
  EXPECT_TRUE(encode(read) == bytes);
  EXPECT_TRUE(read.longestSolicit == 3600u && read.longestInformation == 3601u);
  ASSERT_EQ(read.associations.size(), 1u);
  EXPECT_TRUE(read.associations[0].addresses[0].address == ip("fd00::9"));
  EXPECT_EQ(KJ_ASSERT_NONNULL(read.associations[0].addresses[0].status).code, Status6::kNotOnLink);
  EXPECT_EQ(KJ_ASSERT_NONNULL(read.associations[0].status).code, Status6::kNoBinding);
}

TEST(Message6, WhatIsNoMessageAndWhatDoesNotCount) {
  auto refused = [](Bytes bytes) { return parse6(bytes).message == nullptr; };
  EXPECT_TRUE(refused(octets({7, 0, 0})));
  EXPECT_TRUE(refused(octets({0, 0, 0, 1})));
  EXPECT_TRUE(refused(octets({12, 0, 0, 1}))) << "a relay's";
  EXPECT_TRUE(refused(octets({7, 0, 0, 1, 0, 1, 0, 9, 1})));
  EXPECT_TRUE(refused(octets({7, 0, 0, 1, 0, 3, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})))
      << "IA_NA of 11";
  // A preferred lifetime over the valid one; T1 over T2.
  auto address =
      joined({octets({0, 5, 0, 24}), ip("fd00::9").bytes(), octets({0, 0, 0, 9, 0, 0, 0, 8})});
  auto association = [&](int t1, int t2) {
    return joined(
        {octets({7, 0, 0, 1, 0, 3, 0, 40, 0, 0, 0, 1, 0, 0, 0, t1, 0, 0, 0, t2}), address});
  };
  EXPECT_EQ(KJ_ASSERT_NONNULL(parse6(association(9, 8)).message).associations.size(), 0u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(parse6(association(9, 0)).message).associations.size(), 1u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(parse6(association(8, 9)).message).associations[0].addresses.size(),
            0u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(parse6(octets({7, 0, 0, 1, 0, 2, 0, 1, 9})).message).server.size(),
            0u);
}

// Catches: a list that grows by an option for each server, where each option alone is short.
TEST(Message6, OfTimeServersTheFirst16) {
  auto message = octets({7, 0, 0, 1});
  for (int i = 1; i <= 20; ++i) {
    auto server = ip(kj::str("fd00::", i));
    message = joined({message, octets({0, 56, 0, 20, 0, 1, 0, 16}), server.bytes()});
  }
  auto parsed = parse6(message);
  auto& servers = KJ_ASSERT_NONNULL(parsed.message).timeServers;
  ASSERT_EQ(servers.size(), 16u);
  EXPECT_TRUE(servers[15] == ip("fd00::16")) << servers[15].toString().cStr();
}

// Catches: unreachable resolvers in the three places of resolv.conf.
TEST(Wire, ServersThatCanBeAsked) {
  auto all = joined({ip("::").bytes(), ip("fe80::1").bytes(), ip("fd00::1").bytes(),
                     ip("ff02::fb").bytes(), ip("2001:db8::1").bytes()});
  EXPECT_EQ(kj::strArray(serversIn(all, AF_INET6), " "), "fd00::1 2001:db8::1");
  auto four = joined({ip("0.0.0.0").bytes(), ip("10.0.0.1").bytes(), ip("224.0.0.251").bytes(),
                      ip("169.254.169.253").bytes()});
  EXPECT_EQ(kj::strArray(serversIn(four, AF_INET), " "), "10.0.0.1 169.254.169.253");
}

// --- router advertisements

TEST(Advertisement, IsReadFieldByField) {
  auto bytes = joined({
      octets({134, 0, 0, 0, 64, 0xc0, 7, 8, 0, 0, 0, 1, 0, 0, 0, 2}),
      octets({3, 4, 64, 0xc0, 0, 0, 1, 0, 0, 0, 0, 128, 0, 0, 0, 0}),
      ip("fd00:1::5").bytes(),
      octets({5, 1, 0, 0, 0, 0, 5, 220}),
      octets({25, 5, 0, 0, 0, 0, 0, 60}),
      ip("fd00::1").bytes(),
      ip("fd00::2").bytes(),
      octets({31, 2, 0, 0, 0, 0, 0, 61, 1, 'a', 2, 'b', 'c', 0, 0, 0}),
      octets({1, 1, 2, 0, 0, 0, 0, 1}),
  });
  auto a = KJ_ASSERT_NONNULL(parseAdvertisement(bytes));
  EXPECT_TRUE(a.other);
  ASSERT_TRUE(a.resolvers.size() == 1 && a.search.size() == 1);
  EXPECT_EQ(kj::strArray(a.resolvers[0].servers, " "), "fd00::1 fd00::2");
  EXPECT_TRUE(a.resolvers[0].lifetime == 60 && a.search[0].lifetime == 61);
  EXPECT_EQ(kj::strArray(a.search[0].names, " "), "a.bc");
}

// Catches: settings that are never requested because a router says only that DHCPv6 gives
// addresses.
TEST(Advertisement, EitherFlagSaysThatDhcpv6KnowsMore) {
  for (uint8_t flags : {0x00, 0x40, 0x80, 0xc0, 0x3f}) {
    auto bytes = octets({134, 0, 0, 0, 64, flags, 7, 8, 0, 0, 0, 1, 0, 0, 0, 2});
    EXPECT_EQ(KJ_ASSERT_NONNULL(parseAdvertisement(bytes)).other, (flags & 0xc0) != 0)
        << unsigned(flags);
  }
}

TEST(Advertisement, InvalidBytesAreNoAdvertisement) {
  auto header = octets({134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 1, 0, 0, 0, 2});
  auto none = [&](Bytes behind) { return parseAdvertisement(joined({header, behind})) == nullptr; };
  EXPECT_FALSE(none(nullptr));
  EXPECT_TRUE(none(octets({3, 0, 0, 0, 0, 0, 0, 0})))
      << "an option of no length would be read for ever";
  EXPECT_TRUE(none(octets({3, 4, 64})));
  EXPECT_TRUE(none(octets({3})));
  EXPECT_TRUE(parseAdvertisement(header.slice(0, 15)) == nullptr);
  header[0] = 133;
  EXPECT_TRUE(none(nullptr));
  header[0] = 134;
  // Options too short for their type.
  auto a = KJ_ASSERT_NONNULL(parseAdvertisement(
      joined({header, octets({3, 1, 64, 0, 0, 0, 0, 0}), octets({25, 1, 0, 0, 0, 0, 0, 9}),
              octets({5, 1, 0, 0, 0, 0, 0, 99})})));
  EXPECT_EQ(a.resolvers.size(), 0u);
  EXPECT_FALSE(a.other);
}

// Catches: a resolver that stays after its router has gone, and a list that a stranger makes grow.
TEST(Advertised, HoldsAsLongAsEachLifetime) {
  auto now = kj::origin<kj::TimePoint>();
  Advertised advertised;
  auto handle = [&](kj::StringPtr server, uint32_t lifetime) {
    Advertisement a;
    a.resolvers.add();
    a.resolvers.back().lifetime = lifetime;
    a.resolvers.back().servers.add(ip(server));
    a.search.add();
    a.search.back().lifetime = lifetime;
    a.search.back().names.add(kj::str("d", lifetime, ".org"));
    return advertised.handle(a, now);
  };
  EXPECT_FALSE(advertised.any());
  EXPECT_TRUE(handle("fd00::1", 60));
  EXPECT_FALSE(handle("fd00::1", 60)) << "the same again is no change";
  EXPECT_TRUE(handle("fd00::2", kInfinite));
  EXPECT_TRUE(advertised.deadline() == now + 60 * kj::SECONDS);
  now += 59 * kj::SECONDS;
  EXPECT_FALSE(advertised.expire(now));
  now += 1 * kj::SECONDS;
  EXPECT_TRUE(advertised.expire(now));
  EXPECT_EQ(kj::strArray(advertised.resolvers(), " "), "fd00::2");
  EXPECT_EQ(kj::strArray(advertised.search(), " "), "d4294967295.org");
  EXPECT_TRUE(handle("fd00::2", 0)) << "withdrawn";
  EXPECT_EQ(advertised.resolvers().size(), 0u);
  for (unsigned i = 0; i < 40; ++i) handle(kj::str("fd00::", i + 1), 100 + i);
  EXPECT_EQ(advertised.resolvers().size(), 16u);
  EXPECT_TRUE(advertised.resolvers().back() == ip("fd00::40"));
}

}  // namespace
}  // namespace talos::networkd::dhcp
