// Bonds, VLANs, dummies and tunnels from the text of a config to the specs.
#include "machined/config/network/network-links.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>

#include "common/yaml/yaml-codec.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/config/network/network-config-plan.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kPrivate = "YAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="_kj;
constexpr kj::StringPtr kPublic = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="_kj;

// Plans these items of machine.network.interfaces.
NetworkPlan planOf(kj::StringPtr interfaces, kj::StringPtr cmdline = "",
                   kj::ArrayPtr<const KnownLink> present = nullptr) {
  auto known = knownConfig(configWithInterfaces(interfaces));
  return planNetwork(KernelArguments(cmdline.asArray()), known.get().getMachine(), present);
}

kj::String spec(const NetworkPlan& plan, kj::StringPtr name) {
  for (auto& link : plan.links) {
    if (link.name != name) continue;
    return codec::writeJson(capnp::DynamicStruct::Reader(link.spec.get()),
                            {.indent = 0, .empties = codec::Empties::kOmit});
  }
  return kj::str("none");
}

kj::String links(const NetworkPlan& plan) {
  return kj::strArray(
      KJ_MAP(l, plan.links) {
        return kj::str(l.name, l.kind().size() > 0 ? ":" : "", l.kind(),
                       l.master().size() > 0 ? ">" : "", l.master());
      },
      " ");
}

// Catches: options that are lost on the way, members that are not added to their bond, defaults
// that are written.
TEST(NetworkLinksTest, TheDocumentsBond) {
  auto plan = planOf(
      "      - interface: bond0\n"
      "        dhcp: true\n"
      "        bond:\n"
      "          mode: 802.3ad\n"
      "          lacpRate: fast\n"
      "          xmitHashPolicy: layer3+4\n"
      "          miimon: 100\n"
      "          updelay: 200\n"
      "          downdelay: 200\n"
      "          interfaces: [eth0, eth1]\n");
  EXPECT_EQ(links(plan), "bond0:bond eth0>bond0 eth1>bond0");
  EXPECT_EQ(plan.problems.size(), 0u);
  auto bond = spec(plan, "bond0");
  for (auto part : {"\"mode\":\"802.3ad\""_kj, "\"lacpRate\":\"fast\""_kj, "\"miimon\":100"_kj,
                    "\"xmitHashPolicy\":\"layer3+4\""_kj, "\"updelay\":200"_kj}) {
    EXPECT_TRUE(strstr(bond.cStr(), part.cStr()) != nullptr)
        << part.cStr() << " in " << bond.cStr();
  }
}

// Catches: a bond that is not made because its links appear later, or never.
TEST(NetworkLinksTest, ABondWithoutLinks) {
  auto plan = planOf("      - interface: bond0\n        bond: {mode: active-backup}\n");
  EXPECT_EQ(links(plan), "bond0:bond");
  EXPECT_EQ(plan.problems.size(), 0u);
}

// Catches: the address or the route of a VLAN on its parent.
TEST(NetworkLinksTest, TheDocumentsVlan) {
  auto plan = planOf(
      "      - interface: eth0\n"
      "        dhcp: false\n"
      "        vlans:\n"
      "          - vlanId: 100\n"
      "            cidr: \"192.168.2.10/28\"\n"
      "            routes:\n"
      "              - network: 0.0.0.0/0\n"
      "                gateway: 192.168.2.1\n");
  EXPECT_EQ(links(plan), "eth0 eth0.100:vlan");
  ASSERT_EQ(plan.addresses.size(), 1u);
  EXPECT_EQ(plan.addresses[0].link, "eth0.100");
  ASSERT_EQ(plan.routes.size(), 1u);
  EXPECT_EQ(plan.routes[0].link, "eth0.100");
  EXPECT_EQ(
      spec(plan, "eth0.100"),
      "{\"logical\":true,\"kind\":\"vlan\",\"parentName\":\"eth0\",\"vlan\":{\"vlanID\":100}}")
      << spec(plan, "eth0.100").cStr();
}

// Catches: an address on dummy0, which Talos' kernel always has, that is on no link; a card, a link
// of another kind or name, or an ignored link that becomes a dummy.
TEST(NetworkLinksTest, LinksNamedAsDummiesAreMade) {
  auto plan = planOf("      - {interface: dummy0, addresses: [169.254.2.53/32]}\n");
  EXPECT_EQ(links(plan), "dummy0:dummy");
  EXPECT_EQ(spec(plan, "dummy0"), "{\"logical\":true,\"kind\":\"dummy\"}");
  ASSERT_EQ(plan.addresses.size(), 1u);
  EXPECT_EQ(plan.addresses[0].link, "dummy0");
  struct Row {
    kj::StringPtr entries, links;
  } rows[] = {
      {"{interface: dummy12, dhcp: true}", "dummy12:dummy"},
      {"{interface: dummy0, dummy: true}", "dummy0:dummy"},
      {"{interface: dummy0, vlans: [{vlanId: 5}]}", "dummy0:dummy dummy0.5:vlan"},
      {"{interface: bond0, bond: {interfaces: [eth0, dummy0]}}",
       "bond0:bond eth0>bond0 dummy0:dummy>bond0"},
      {"{interface: dummy0, bridge: {interfaces: [dummy1]}}", "dummy0:bridge dummy1:dummy>dummy0"},
      {"{interface: dummy0}\n      - {interface: dummy0, bond: {interfaces: [eth0]}}",
       "dummy0:bond eth0>dummy0"},
      {"{interface: dummy}", "dummy"},
      {"{interface: dummy0a}", "dummy0a"},
      {"{interface: mydummy0}", "mydummy0"},
      {"{interface: dummy0, ignore: true}", ""},
  };
  for (auto& row : rows) {
    EXPECT_EQ(links(planOf(kj::str("      - ", row.entries, "\n"))), row.links)
        << row.entries.cStr();
  }
  auto dummy0 = "      - interface: dummy0\n"_kj;
  EXPECT_EQ(links(planOf(dummy0, "talos.network.interface.ignore=dummy0")), "");
  KnownLink present{.index = 2, .name = kj::str("dummy0"), .hardware = true};
  auto withPresent = [&] { return links(planOf(dummy0, "", kj::arrayPtr(&present, 1))); };
  EXPECT_EQ(withPresent(), "dummy0") << "a card";
  present.made = true;
  EXPECT_EQ(withPresent(), "dummy0:dummy");
  present.hardware = present.made = false;
  EXPECT_EQ(withPresent(), "dummy0:dummy") << "the kernel has made it";
}

// Catches: a private key in a record that everybody may read.
TEST(NetworkLinksTest, ATunnelsSpecHasItsPublicKeyOnly) {
  auto plan =
      planOf(kj::str("      - interface: wg0\n"
                     "        mtu: 1500\n"
                     "        cidr: 192.168.2.1/24\n"
                     "        wireguard:\n"
                     "          privateKey: ",
                     kPrivate,
                     "\n"
                     "          listenPort: 51820\n"
                     "          peers:\n"
                     "            - publicKey: ",
                     kPublic,
                     "\n"
                     "              endpoint: peer.example.org:51820\n"
                     "              persistentKeepaliveInterval: 25500ms\n"
                     "              allowedIPs: [192.168.88.0/24]\n"));
  auto text = spec(plan, "wg0");
  EXPECT_TRUE(strstr(text.cStr(), "YAnz5TF") == nullptr) << text.cStr();
  auto own = netlink::toText(KJ_ASSERT_NONNULL(plan.links[0].privateKey).publicKey());
  EXPECT_TRUE(strstr(text.cStr(), own.cStr()) != nullptr);
  auto peers = plan.links[0].spec.get().getWireguard().getPeers();
  EXPECT_EQ(peers[0].getPersistentKeepaliveInterval(), 25u);
  EXPECT_EQ(plan.links[0].mtu, 1500u);
  EXPECT_EQ(plan.problems.size(), 0u);
}

// Catches: one mistake that affects the machine's other links.
TEST(NetworkLinksTest, WhatCannotBeIsSaidAndTheRestCounts) {
  auto plan = planOf(
      "      - interface: bond0\n"
      "        bond: {interfaces: [eth0, eth1, eth2]}\n"
      "      - interface: bond1\n"
      "        bond: {interfaces: [eth1, eth3]}\n"
      "      - interface: eth0\n"
      "        cidr: 10.0.0.2/24\n"
      "      - interface: bond0\n"
      "        dummy: true\n"
      "      - interface: averylongname0\n"
      "        vlans: [{vlanId: 100}]\n"
      "      - interface: dummy0\n"
      "        dummy: true\n",
      "talos.network.interface.ignore=eth2");
  EXPECT_EQ(links(plan),
            "bond0:bond eth0>bond0 eth1>bond0 bond1:bond eth3>bond1 averylongname0 dummy0:dummy");
  EXPECT_EQ(plan.addresses.size(), 0u);
  EXPECT_EQ(
      kj::strArray(plan.problems, "\n"),
      "bond0: its link eth2 is set to be ignored and is left out\n"
      "bond1: its link eth1 is in bond0 already\n"
      "bond0: it is a bond already and cannot also be a dummy\n"
      "averylongname0: the link name of VLAN 100, averylongname0.100, would have more than 15 "
      "characters\n"
      "eth0: is part of bond0 and cannot have the address 10.0.0.2/24");
}

}  // namespace
}  // namespace talos::machined
