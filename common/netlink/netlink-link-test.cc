// Links of every kind, bonds and WireGuard as messages.
#include <errno.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <linux/if_link.h>
#include <linux/wireguard.h>

#include "common/bond/bond-options.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-ip.h"

namespace talos::netlink {
namespace {

using O = BondOption;

// Decodes a request, which has the form in which the kernel would report the object.
Link roundTrip(const Change& change) {
  auto decoded = decode(encode(change));
  KJ_ASSERT(decoded.problem == nullptr && decoded.messages.size() == 1);
  return kj::mv(decoded.messages[0].body.get<Link>());
}

// Catches: an option in the place, or with the width, of another (Talos wrote `primary` into
// `primary_reselect`).
TEST(NetlinkLink, EveryBondOptionSurvivesTheRoundTripAlone) {
  EXPECT_EQ(bondRules().size(), 28u);
  for (auto& rule : bondRules()) {
    BondOptions options;
    options[rule.option] = rule.most;
    auto back = roundTrip(AddLink{kj::str("bond0"), Bond{options}});
    EXPECT_EQ(back.kind, "bond");
    ASSERT_TRUE(back.bond.has_value()) << rule.name.cStr();
    EXPECT_TRUE(*back.bond == options) << rule.name.cStr();
    EXPECT_TRUE(*roundTrip(SetBond{7, options}).bond == options) << rule.name.cStr();
  }
}

TEST(NetlinkLink, BondTargetsAndSystemSurviveTheRoundTrip) {
  BondOptions options;
  options.arpTargets = {ip("10.0.0.1"), ip("10.0.0.2")};
  options.nsTargets = {ip("fd00::1")};
  options.actorSystem = Mac{2, 0, 0, 0, 0, 9};
  EXPECT_TRUE(*roundTrip(SetBond{7, options}).bond == options);
  options.arpTargets->clear();  // an empty list differs from an absent one
  EXPECT_TRUE(*roundTrip(SetBond{7, options}).bond == options);
}

// Catches: attributes that were not requested: they would overwrite another program's settings, and
// fail in other modes.
TEST(NetlinkLink, OnlyWhatIsGivenIsSent) {
  auto bare = encode(AddLink{kj::str("bond0"), Bond{}});
  BondOptions one;
  one[O::kMiimon] = 100;
  auto some = encode(AddLink{kj::str("bond0"), Bond{one}});
  EXPECT_EQ(some.size(), bare.size() + 4 + 8);  // the nest and one attribute
}

// Catches: the protocol in host order, and a tag on the wrong parent.
TEST(NetlinkLink, VlansSurviveTheRoundTrip) {
  auto back = roundTrip(
      AddLink{.name = kj::str("eth0.9"), .kind = Vlan{3, 9, 0x88a8}, .group = 116, .mtu = 1400});
  EXPECT_EQ(back.parent, 3u);
  EXPECT_EQ(back.group, 116u);
  EXPECT_EQ(back.mtu, 1400u);
  EXPECT_TRUE((back.vlan == VlanTag{9, 0x88a8}));
}

TEST(NetlinkLink, BridgesSurviveTheRoundTrip) {
  auto back = roundTrip(SetBridge{4, {.stp = true, .vlanFiltering = false}});
  EXPECT_TRUE((back.bridge == BridgeOptions{true, false}));
}

// Catches: the state of a bond's member being read from the wrong attributes.
TEST(NetlinkLink, ReadsWhatABondSaysOfItsMember) {
  MessageBuilder out(RTM_NEWLINK, 0);
  out.header<ifinfomsg>().ifi_index = 5;
  out.nest(IFLA_LINKINFO, [&] {
    // The data before the kind, as nothing forbids.
    out.nest(IFLA_INFO_SLAVE_DATA, [&] {
      out.putU8(IFLA_BOND_SLAVE_STATE, 1);
      out.putU8(IFLA_BOND_SLAVE_MII_STATUS, 2);
      out.putU32(IFLA_BOND_SLAVE_LINK_FAILURE_COUNT, 77);
      out.putU16(IFLA_BOND_SLAVE_AD_AGGREGATOR_ID, 3);
    });
    out.putText(IFLA_INFO_SLAVE_KIND, "bond");
  });
  auto decoded = decode(out.finish());
  auto& link = decoded.messages[0].body.get<Link>();
  ASSERT_TRUE(link.bondMember.has_value());
  EXPECT_TRUE(link.bondMember->backup);
  EXPECT_EQ(miiStatusName(link.bondMember->miiStatus), "down");
  EXPECT_EQ(link.bondMember->failures, 77u);
  EXPECT_EQ(link.bondMember->aggregator, 3u);
}

// --- WireGuard
WireguardSecret secret(kj::byte last = 1) {
  kj::byte bytes[32] = {1};
  bytes[31] = last;
  return KJ_ASSERT_NONNULL(WireguardSecret::parse(kj::encodeBase64(bytes)));
}

// Catches: keys that are cut, padded or clamped into another key.
TEST(NetlinkWireguard, KeysAreExactlyThirtyTwoOctets) {
  for (size_t size : {0, 31, 33}) {
    auto text = kj::encodeBase64(kj::heapArray<kj::byte>(size));
    EXPECT_TRUE(WireguardSecret::parse(text) == nullptr) << size;
    EXPECT_TRUE(parseWireguardKey(text) == nullptr) << size;
  }
  auto good = toText(secret().publicKey());
  EXPECT_TRUE(parseWireguardKey(good) != nullptr);
  EXPECT_TRUE(parseWireguardKey(kj::str(" ", good.slice(1))) == nullptr);
  EXPECT_TRUE(parseWireguardKey("<privatekey file contents>") == nullptr);
}

WireguardDevice readBack(const SetWireguard& set, size_t* messages = nullptr) {
  WireguardDevice device;
  auto encoded = encodeWireguard(30, set);
  if (messages != nullptr) *messages = encoded.size();
  for (auto& message : encoded) {
    auto decoded = decodeGeneric(message);
    KJ_ASSERT(decoded.problem == nullptr && decoded.messages.size() == 1);
    readWireguard(decoded.messages[0].body.get<Generic>(), device);
  }
  return device;
}

// Catches: endpoints with a swapped port or address, networks with host bits.
TEST(NetlinkWireguard, WhatIsSetIsWhatIsRead) {
  SetWireguard set{.index = 4, .listenPort = 51820, .firewallMark = 7};
  SetPeer four{.publicKey = secret(1).publicKey(),
               .endpoint = Endpoint{ip("192.0.2.1"), 51111},
               .keepalive = 25,
               .replaceAllowed = true,
               .allowed = {prefix("192.168.88.7/24"), prefix("fd00::/8")}};
  SetPeer six{.publicKey = secret(2).publicKey(), .endpoint = Endpoint{ip("fd00::5"), 9}};
  set.peers = {four, six};
  auto device = readBack(set);
  EXPECT_EQ(device.listenPort, 51820);
  EXPECT_EQ(device.firewallMark, 7u);
  ASSERT_EQ(device.peers.size(), 2u);
  EXPECT_TRUE(device.peers[0].publicKey == four.publicKey);
  EXPECT_EQ(device.peers[0].endpoint->toString(), "192.0.2.1:51111");
  EXPECT_EQ(device.peers[0].keepalive, 25);
  ASSERT_EQ(device.peers[0].allowed.size(), 2u);
  EXPECT_EQ(device.peers[0].allowed[0].toString(), "192.168.88.0/24");
  EXPECT_EQ(device.peers[1].endpoint->toString(), "[fd00::5]:9");
}

// Catches: a request that is larger than the kernel accepts; a peer whose second part removes what
// its first part added.
TEST(NetlinkWireguard, ManyPeersAndNetworksAreSplit) {
  SetWireguard set{.index = 4, .privateKey = secret()};
  for (unsigned i = 0; i < 100; ++i) {
    SetPeer peer{.publicKey = secret(i + 2).publicKey(), .replaceAllowed = true};
    unsigned count = i == 50 ? 1000 : i % 5;
    for (unsigned n = 0; n < count; ++n) {
      peer.allowed.push_back(
          {KJ_ASSERT_NONNULL(Ip::parse(kj::str("10.", i, ".", n / 256, ".", n % 256))), 32});
    }
    set.peers.push_back(peer);
  }
  size_t messages = 0;
  auto device = readBack(set, &messages);
  EXPECT_GT(messages, 12u);
  ASSERT_EQ(device.peers.size(), 100u);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(device.peers[i].publicKey == set.peers[i].publicKey);
    EXPECT_EQ(device.peers[i].allowed.size(), set.peers[i].allowed.size()) << i;
  }
  // Only the first message has the private key, and only the first part of a peer replaces.
  auto encoded = encodeWireguard(30, set);
  size_t replacing = 0;
  auto key = secret();
  for (size_t i = 0; i < encoded.size(); ++i) {
    auto bytes = encoded[i].asPtr();
    auto found = std::search(bytes.begin(), bytes.end(), key.bytes().begin(), key.bytes().end());
    EXPECT_EQ(found != bytes.end(), i == 0) << i;
    constexpr kj::byte kReplace[] = {8, 0, WGPEER_A_FLAGS, 0, WGPEER_F_REPLACE_ALLOWEDIPS, 0, 0, 0};
    for (auto at = bytes.begin();; ++at) {
      at = std::search(at, bytes.end(), std::begin(kReplace), std::end(kReplace));
      if (at == bytes.end()) break;
      ++replacing;
    }
  }
  EXPECT_EQ(replacing, 100u);
}

// Catches: the private key of a dump in kept data, or in a log.
TEST(NetlinkWireguard, PrivateKeysComeOutNowhere) {
  auto moved = secret();
  auto other = kj::mv(moved);
  auto third = secret(7);
  third = kj::mv(other);
  EXPECT_TRUE(third.publicKey() == secret().publicKey());
  for (auto gone : {&moved, &other}) {
    for (auto octet : gone->bytes()) EXPECT_EQ(octet, 0) << "left where it was moved from";
  }
  SetWireguard set{.index = 4, .privateKey = secret()};
  auto text = describe(Change(kj::mv(set)));
  EXPECT_EQ(text, "set WireGuard of link 4: private key");
  SetWireguard again{.index = 4, .privateKey = secret()};
  auto device = readBack(again);
  EXPECT_TRUE(device.publicKey == WireguardKey{});  // nothing of the message was taken for it
}

}  // namespace
}  // namespace talos::netlink
