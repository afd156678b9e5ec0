#include "networkd/plan/wanted-specs.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

namespace talos::networkd {
namespace {

template <typename Spec, typename Fill>
Wanted read(Fill&& fill, void (*add)(Wanted&, kj::StringPtr, uint64_t, typename Spec::Reader)) {
  capnp::MallocMessageBuilder message;
  auto spec = message.initRoot<Spec>();
  fill(spec);
  Wanted wanted;
  add(wanted, "cmdline/x", 7, spec.asReader());
  return wanted;
}

Wanted readAddress(kj::StringPtr text, kj::StringPtr family = "", kj::StringPtr scope = "") {
  return read<rpc::AddressSpecSpec>(
      [&](rpc::AddressSpecSpec::Builder spec) {
        spec.setAddress(text);
        spec.setLinkName("eth0");
        spec.setFamily(family);
        spec.setScope(scope);
      },
      &addAddress);
}

Wanted readRoute(kj::StringPtr destination, kj::StringPtr gateway, kj::StringPtr family = "") {
  return read<rpc::RouteSpecSpec>(
      [&](rpc::RouteSpecSpec::Builder spec) {
        spec.setDestination(destination);
        spec.setGateway(gateway);
        spec.setFamily(family);
        spec.setLinkName("eth0");
        spec.setMetric(10);
      },
      &addRoute);
}

// Catches: a rule of another family, for other packets or to another table than its spec says; a
// spec that is not valid and becomes a rule for all packets.
TEST(Specs, ReadsRules) {
  auto shown = [](kj::StringPtr family, kj::StringPtr source, kj::StringPtr table,
                  config::RuleAction action = config::RuleAction::UNICAST, uint32_t mark = 0) {
    auto wanted = read<rpc::RoutingRuleSpecSpec>(
        [&](rpc::RoutingRuleSpecSpec::Builder spec) {
          spec.setFamily(family);
          spec.setPriority(1500);
          spec.setSource(source);
          spec.setTable(table);
          spec.setAction(action);
          spec.setFwMark(mark);
          spec.setInLinkName("eth0");
        },
        &addRule);
    if (wanted.problems.size() > 0) return kj::mv(wanted.problems[0]);
    auto& rule = wanted.rules[0];
    EXPECT_EQ(rule.version, 7u);
    EXPECT_EQ(rule.rule.protocol, kMark);
    return netlink::nameOfRule(rule.rule);
  };
  EXPECT_EQ(shown("inet4", "10.0.0.1/8", "77"), "inet4 1500: from 10.0.0.0/8 iif eth0 lookup 77");
  EXPECT_EQ(shown("inet6", "", "main"), "inet6 1500: from all iif eth0 lookup main");
  EXPECT_EQ(shown("inet4", "0.0.0.0/0", "local", config::RuleAction::UNICAST, 5),
            "inet4 1500: from all fwmark 0x5 iif eth0 lookup local");
  EXPECT_EQ(shown("inet4", "", "", config::RuleAction::PROHIBIT),
            "inet4 1500: from all iif eth0 prohibit");
  EXPECT_EQ(shown("inet4", "fd00::/8", "77"),
            "RoutingRuleSpec cmdline/x: \"fd00::/8\" is not a network of its family");
  EXPECT_EQ(shown("inet4", "", ""), "RoutingRuleSpec cmdline/x: \"\" is not a table");
}

// Catches: a route or a VRF in another table than its spec says, and a peer that is lost.
TEST(Specs, ReadsTablesAndPeers) {
  auto route = [](kj::StringPtr table) {
    return read<rpc::RouteSpecSpec>(
        [&](rpc::RouteSpecSpec::Builder spec) {
          spec.setDestination("10.9.0.0/16");
          spec.setTable(table);
        },
        &addRoute);
  };
  EXPECT_EQ(route("").routes[0].table, unsigned(RT_TABLE_MAIN));
  EXPECT_EQ(route("77").routes[0].table, 77u);
  EXPECT_STREQ(route("x").problems[0].cStr(), "RouteSpec cmdline/x: \"x\" is not a table");
  auto link = [](kj::StringPtr kind, kj::StringPtr table) {
    return read<rpc::LinkSpecSpec>(
        [&](rpc::LinkSpecSpec::Builder spec) {
          spec.setKind(kind);
          spec.initVrfMaster().setTable(table);
          spec.initVeth().setPeerName("vb");
        },
        &addLink);
  };
  EXPECT_EQ(link("vrf", "77").links[0].vrfTable, 77u);
  EXPECT_STREQ(link("vrf", "0").problems[0].cStr(), "LinkSpec cmdline/x: \"0\" is not a table");
  EXPECT_EQ(link("veth", "").links[0].peer, "vb");
}

// Catches: a scope that does not follow from the address, and a lost version.
TEST(Specs, ReadsAddresses) {
  struct {
    kj::StringPtr text, scope;
    uint8_t expected;
  } rows[] = {{"10.5.0.2/24", "", RT_SCOPE_UNIVERSE},
              {"169.254.1.1/16", "", RT_SCOPE_LINK},
              {"127.0.0.2/8", "", RT_SCOPE_HOST},
              {"10.5.0.2/24", "link", RT_SCOPE_LINK},
              {"fd00::1/64", "global", RT_SCOPE_UNIVERSE}};
  for (auto& row : rows) {
    auto wanted = readAddress(row.text, "", row.scope);
    ASSERT_EQ(wanted.addresses.size(), 1u) << row.text.cStr();
    EXPECT_EQ(wanted.addresses[0].scope, row.expected) << row.text.cStr();
    EXPECT_EQ(wanted.addresses[0].version, 7u);
  }
}

// Catches: an unreadable spec that is dropped without a problem.
TEST(Specs, WhatCannotBeReadIsAProblemThatNamesTheSpec) {
  struct {
    Wanted wanted;
    kj::StringPtr problem;
  } rows[] = {
      {readAddress("10.5.0.2"),
       "AddressSpec cmdline/x: \"10.5.0.2\" is not a valid address with a prefix length; for "
       "example 10.5.0.2/24"},
      {readAddress("10.5.0.2/24", "inet6"),
       "AddressSpec cmdline/x: family \"inet6\" does not fit 10.5.0.2/24"},
      {readAddress("224.0.0.1/24"),
       "AddressSpec cmdline/x: 224.0.0.1/24 is not a valid address of a link"},
      {readAddress("10.5.0.2/24", "", "world"),
       "AddressSpec cmdline/x: scope \"world\" is none of global, site, link, host"},
      {readRoute("10.9.0.0", "10.5.0.1"),
       "RouteSpec cmdline/x: destination \"10.9.0.0\" is not a prefix, as 10.9.0.0/16"},
      {readRoute("", "gateway"), "RouteSpec cmdline/x: gateway \"gateway\" is not an address"},
      {readRoute("fd00::/8", "10.5.0.1"),
       "RouteSpec cmdline/x: family, destination and gateway are not all IPv4 or all IPv6"},
  };
  for (auto& row : rows) {
    ASSERT_EQ(row.wanted.problems.size(), 1u) << row.problem.cStr();
    EXPECT_STREQ(row.wanted.problems[0].cStr(), row.problem.cStr());
    EXPECT_EQ(row.wanted.addresses.size() + row.wanted.routes.size(), 0u);
  }
}

// Catches: an empty destination of the wrong family, and the gateway 0.0.0.0 taken for a router.
TEST(Specs, ReadsRoutes) {
  struct {
    Wanted wanted;
    kj::StringPtr destination;
    bool gateway;
  } rows[] = {{readRoute("", "10.5.0.1"), "0.0.0.0/0", true},
              {readRoute("", "fe80::1"), "::/0", true},
              {readRoute("", "", "inet6"), "::/0", false},
              {readRoute("10.9.1.2/16", "0.0.0.0"), "10.9.0.0/16", false}};
  for (auto& row : rows) {
    ASSERT_EQ(row.wanted.routes.size(), 1u) << row.destination.cStr();
    EXPECT_STREQ(row.wanted.routes[0].destination.toString().cStr(), row.destination.cStr());
    EXPECT_EQ(row.wanted.routes[0].gateway != nullptr, row.gateway) << row.destination.cStr();
    EXPECT_EQ(row.wanted.routes[0].metric, 10u);
  }
}

// --- WireGuard

struct PeerText {
  kj::StringPtr key, endpoint;
  uint32_t keepalive;
  kj::StringPtr network;
};
Wanted readTunnel(std::initializer_list<PeerText> peers, kj::StringPtr privateKey = "") {
  auto wanted = read<rpc::LinkSpecSpec>(
      [&](rpc::LinkSpecSpec::Builder spec) {
        spec.setName("wg0");
        spec.setKind("wireguard");
        auto tunnel = spec.initWireguard();
        tunnel.setListenPort(51820);
        tunnel.setFirewallMark(7);
        auto list = tunnel.initPeers(peers.size());
        for (size_t i = 0; i < peers.size(); ++i) {
          auto& peer = peers.begin()[i];
          list[i].setPublicKey(peer.key);
          list[i].setEndpoint(peer.endpoint);
          list[i].setPersistentKeepaliveInterval(peer.keepalive);
          list[i].initAllowedIPs(1).set(0, peer.network);
        }
      },
      &addLink);
  capnp::MallocMessageBuilder message;
  auto key = message.initRoot<rpc::WireguardKeySpec>();
  key.setPrivateKey(privateKey);
  if (privateKey.size() > 0) addWireguardKey(wanted, "wg0", key.asReader());
  return wanted;
}
constexpr kj::StringPtr kOne = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="_kj,
                        kTwo = "8K8ZKs9o3Wkb8yO0AyZ8bXHkY0Ko0yY4KfCtT7hX4nQ="_kj,
                        kSecret = "YAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="_kj;

TEST(Specs, ReadsTunnels) {
  auto wanted = readTunnel(
      {{kOne, "10.0.0.1:51820", 25, "10.1.0.9/16"}, {kTwo, "[fd00::1]:9", 70000, "fd00:1::/64"}},
      kSecret);
  EXPECT_EQ(wanted.problems.size(), 0u);
  ASSERT_EQ(wanted.links.size(), 1u);
  auto& tunnel = wanted.links[0].wireguard;
  EXPECT_TRUE(tunnel.listenPort == 51820 && tunnel.firewallMark == 7);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(tunnel.privateKey).publicKey() ==
              KJ_ASSERT_NONNULL(netlink::WireguardSecret::parse(kSecret)).publicKey());
  ASSERT_EQ(tunnel.peers.size(), 2u);
  EXPECT_EQ(netlink::toText(tunnel.peers[0].publicKey), kOne);
  EXPECT_EQ(tunnel.peers[0].resolved->toString(), "10.0.0.1:51820");
  EXPECT_EQ(tunnel.peers[0].keepalive, 25);
  EXPECT_EQ(tunnel.peers[0].allowed[0].toString(), "10.1.0.0/16");
  EXPECT_EQ(tunnel.peers[1].resolved->toString(), "[fd00::1]:9");
  EXPECT_EQ(tunnel.peers[1].keepalive, 65535);
}

// An endpoint that is not an address is a name, which is resolved later
// (networkd/control/wireguard-endpoints.h).
TEST(Specs, EndpointsThatAreNames) {
  for (auto text : {"peer.example:9"_kj, "10.0.0.1"_kj, "10.0.0.1:0"_kj, "10.0.0.1:65536"_kj,
                    "10.0.0.1:"_kj, ":9"_kj, ""_kj}) {
    auto wanted = readTunnel({{kOne, text, 0, "10.1.0.0/16"}});
    auto& peer = wanted.links[0].wireguard.peers[0];
    EXPECT_FALSE(peer.resolved.has_value()) << text.cStr();
    EXPECT_EQ(peer.endpoint, text);
  }
}

// Catches: a bad peer that disables the others, or the tunnel; and a key that is shown.
TEST(Specs, WhatIsWrongWithATunnelIsSaidWithoutItsKey) {
  auto wanted = readTunnel({{kOne, "10.0.0.1:9", 0, "10.1.0.0/16"},
                            {kOne, "10.0.0.2:9", 0, "10.2.0.0/16"},
                            {"nonsense", "10.0.0.3:9", 0, "10.3.0.0/16"},
                            {kTwo, "10.0.0.4:9", 0, "10.4.0.0"}},
                           kSecret.slice(1));
  auto text = kj::strArray(wanted.problems, "\n");
  EXPECT_STREQ(
      text.cStr(),
      kj::str(
          "LinkSpec wg0: duplicate peer: two have the key ", kOne, "\n",
          "LinkSpec wg0: the public key \"nonsense\" of a peer is not valid base64 of 32 bytes\n",
          "LinkSpec wg0: \"10.4.0.0\" of the peer ", kTwo,
          " is not a valid network; use for example 192.168.88.0/24\n",
          "LinkSpec wg0: its private key is not valid base64 of 32 bytes")
          .cStr());
  ASSERT_EQ(wanted.links[0].wireguard.peers.size(), 2u);
  EXPECT_EQ(wanted.links[0].wireguard.peers[0].allowed[0].toString(), "10.1.0.0/16");
  EXPECT_TRUE(wanted.links[0].wireguard.privateKey == nullptr);
}

TEST(Specs, ReadsVlansAndKnowsItsKinds) {
  for (auto protocol : {"802.1q"_kj, "802.1ad"_kj}) {
    auto wanted = read<rpc::LinkSpecSpec>(
        [&](rpc::LinkSpecSpec::Builder spec) {
          spec.setKind("vlan");
          spec.setParentName("eth0");
          spec.initVlan().setVlanID(7);
          spec.getVlan().setVlanProtocol(protocol);
        },
        &addLink);
    EXPECT_EQ(wanted.links[0].name, "cmdline/x") << "the id, when it has no name";
    EXPECT_EQ(wanted.links[0].parent, "eth0");
    EXPECT_TRUE((wanted.links[0].vlan ==
                 netlink::VlanTag{7, uint16_t(protocol == "802.1q" ? 0x8100 : 0x88a8)}));
  }
  auto other = read<rpc::LinkSpecSpec>(
      [](rpc::LinkSpecSpec::Builder spec) { spec.setKind("ipvlan"); }, &addLink);
  EXPECT_EQ(other.links.size(), 0u);
  EXPECT_STREQ(other.problems[0].cStr(),
               "LinkSpec cmdline/x: networkd cannot create links of kind \"ipvlan\"");
}

// Catches: more servers than the C library reads, and a line that a spec's text smuggles into the
// file.
TEST(Specs, ResolverFileHasAtMostThreeServers) {
  auto servers = kj::arr(kj::str("10.5.0.1"), kj::str("1.1.1.1\nnameserver 6.6.6.6"),
                         kj::str("fd00::53"), kj::str("8.8.8.8"), kj::str("9.9.9.9"));
  auto search = kj::arr(kj::str("example.org"), kj::str("a\nnameserver 6.6.6.6"), kj::str("b.org"));
  EXPECT_STREQ(
      resolverFile(servers, search).cStr(),
      "nameserver 10.5.0.1\nnameserver fd00::53\nnameserver 8.8.8.8\nsearch example.org b.org\n");
  EXPECT_STREQ(resolverFile(nullptr, search.slice(1, 2)).cStr(), "");
}

}  // namespace
}  // namespace talos::networkd
