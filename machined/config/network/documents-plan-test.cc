// The network of a node whose config describes it in documents
// (common/config/documents/documents.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <string>

#include "machined/config/network/network-config-plan.h"
#include "machined/config/network/test-network-config.h"

namespace talos::machined {
namespace {

using ::testing::ElementsAre;

kj::Vector<KnownLink> threeCards() {
  kj::Vector<KnownLink> links;
  auto add = [&](unsigned index, const char* name, const char* driver, const char* address) {
    KnownLink link{index, kj::str(name), false, true};
    link.driver = kj::str(driver);
    link.hardwareAddress = kj::str(address);
    link.permanentAddress = kj::str(address);
    links.add(kj::mv(link));
  };
  links.add(KnownLink{1, kj::str("lo"), true});
  add(2, "eth0", "e1000e", "02:00:00:00:00:01");
  add(3, "eth1", "igb", "02:00:00:00:00:02");
  add(4, "eth2", "igb", "02:00:00:00:00:03");
  return links;
}

// Returns the plan of a config with these documents, each in YAML's flow form without apiVersion.
NetworkPlan planOf(std::initializer_list<const char*> documents,
                   kj::ArrayPtr<const Lease> leases = nullptr, bool linksKnown = true) {
  auto known = linksKnown ? threeCards() : kj::Vector<KnownLink>();
  std::string text = "machine: {type: controlplane}\n";
  for (auto document : documents) {
    text += std::string("---\n{apiVersion: v1alpha1, ") + document + "}\n";
  }
  MachineText machine(config::parse(kj::arrayPtr(text.data(), text.size())));
  return planNetwork(KernelArguments(""_kj.asArray()), machine.get(), known, leases);
}

// Returns the links with what they are, their operators and their addresses: "lab vlan on eth0".
std::vector<std::string> linesOf(const NetworkPlan& plan) {
  std::vector<std::string> lines;
  for (auto& link : plan.links) {
    auto line = kj::str(link.name, link.kind().size() > 0 ? " " : "", link.kind());
    if (link.parent().size() > 0) {
      line = kj::str(line, " ", link.spec.get().getVlan().getVlanID(), " on ", link.parent());
    }
    if (link.master().size() > 0) line = kj::str(line, " in ", link.master());
    lines.emplace_back(line.cStr());
  }
  for (auto& one : plan.operators) lines.emplace_back(kj::str(one.kind, "/", one.link).cStr());
  for (auto& one : plan.addresses) lines.emplace_back(kj::str(one.prefix, " on ", one.link).cStr());
  for (auto& one : plan.vips) {
    auto cloud =
        one.hcloudToken.size() > 0 ? kj::str(" at Hetzner with ", one.hcloudToken) : kj::str();
    lines.emplace_back(kj::str("shared ", one.address, " on ", one.link, cloud).cStr());
  }
  for (auto& route : plan.routes) {
    auto gateway = kj::str();
    KJ_IF_MAYBE (g, route.gateway) gateway = kj::str(" via ", *g);
    auto place = route.link.size() > 0 ? kj::str(" on ", route.link) : kj::str();
    lines.emplace_back(kj::str(route.type, " ", route.destination, gateway, place, " metric ",
                               route.metric, " table ", route.table)
                           .cStr());
  }
  for (auto& one : plan.rules) {
    auto rule = one.get();
    lines.emplace_back(kj::str(rule.getFamily(), " ", rule.getPriority(), " from ",
                               rule.getSource(), " to ", rule.getDestination(), " ",
                               rule.getAction(), " ", rule.getTable())
                           .cStr());
  }
  for (auto& one : plan.problems) lines.emplace_back(kj::str("problem ", one).cStr());
  return lines;
}

// Catches: DHCP on a card that no document names; a card that loses DHCP because of a document that
// is not about links, or that only shares an address.
TEST(DocumentsPlan, DhcpIsWhereADocumentOfALinkSaysSo) {
  EXPECT_THAT(linesOf(planOf({"kind: LinkConfig, name: eth0, addresses: [{address: 10.0.0.2/24}]",
                              "kind: DHCPv4Config, name: eth1"})),
              ElementsAre("eth0", "eth1", "dhcp4/eth1", "ra/eth1", "10.0.0.2/24 on eth0"));
  EXPECT_THAT(linesOf(planOf({"kind: HostnameConfig, hostname: a",
                              "kind: Layer2VIPConfig, name: 10.0.0.9, link: eth0"})),
              ElementsAre("eth0", "eth1", "eth2", "dhcp4/eth0", "ra/eth0", "dhcp4/eth1", "ra/eth1",
                          "dhcp4/eth2", "ra/eth2", "shared 10.0.0.9 on eth0"));
  EXPECT_THAT(linesOf(planOf({"kind: HCloudVIPConfig, name: 10.0.0.9, link: eth0, apiToken: t"})),
              ElementsAre("eth0", "eth1", "eth2", "dhcp4/eth0", "ra/eth0", "dhcp4/eth1", "ra/eth1",
                          "dhcp4/eth2", "ra/eth2", "shared 10.0.0.9 on eth0 at Hetzner with t"));
}

// Catches: a VLAN that is named after its parent; a bond whose VLAN is on a card; an address on the
// wrong one of three links.
TEST(DocumentsPlan, ABondWithAVlan) {
  EXPECT_THAT(
      linesOf(planOf({"kind: VLANConfig, name: lab, vlanID: 212, parent: b9, addresses: [{address: "
                      "10.1.0.2/24}]",
                      "kind: BondConfig, name: b9, links: [eth1, eth2], bondMode: active-backup"})),
      ElementsAre("lab vlan 212 on b9", "b9 bond", "eth1 in b9", "eth2 in b9", "ra/b9",
                  "10.1.0.2/24 on lab"));
}

// Catches: a link of a VRF that loses its addresses or DHCP, as one of a bond does; a VRF that asks
// routers; a route in another table than its document says.
TEST(DocumentsPlan, AVrfLeavesItsLinksTheirAddresses) {
  auto plan = planOf({"kind: VRFConfig, name: red, table: 77, links: [eth1, eth2]",
                      "kind: LinkConfig, name: eth1, addresses: [{address: 10.1.0.2/24}], routes: "
                      "[{gateway: 10.1.0.1, table: 77}, {gateway: 10.1.0.1}]",
                      "kind: DHCPv4Config, name: eth2"});
  EXPECT_THAT(linesOf(plan),
              ElementsAre("red vrf", "eth1 in red", "eth2 in red", "dhcp4/eth2", "ra/eth2",
                          "10.1.0.2/24 on eth1",
                          "unicast 0.0.0.0/0 via 10.1.0.1 on eth1 metric 1024 table 77",
                          "unicast 0.0.0.0/0 via 10.1.0.1 on eth1 metric 1024 table 0"));
  EXPECT_EQ("77", plan.links[0].spec.get().getVrfMaster().getTable());
  EXPECT_TRUE(plan.links[0].spec.get().getLogical());
}

// Catches: an end of a pair that networkd would not make, or without its own addresses.
TEST(DocumentsPlan, APairHasTwoEnds) {
  auto plan =
      planOf({"kind: VethConfig, name: va, addresses: [{address: 10.1.0.1/30}], peer: "
              "{name: vb, mtu: 1400, addresses: [{address: 10.1.0.2/30}]}"});
  EXPECT_THAT(linesOf(plan),
              ElementsAre("va veth", "vb veth", "10.1.0.1/30 on va", "10.1.0.2/30 on vb"));
  EXPECT_EQ("vb", plan.links[0].spec.get().getVeth().getPeerName());
  EXPECT_EQ("va", plan.links[1].spec.get().getVeth().getPeerName());
  EXPECT_EQ(0u, plan.links[0].mtu);
  EXPECT_EQ(1400u, plan.links[1].mtu);
}

// Catches: a rule of one family alone although it names no network, or of the wrong one; a
// blackhole that is bound to a link, or differs from that of the main document.
TEST(DocumentsPlan, RulesAndBlackholes) {
  EXPECT_THAT(
      linesOf(planOf({"kind: RoutingRuleConfig, name: '1500', table: 77",
                      "kind: RoutingRuleConfig, name: '7', dst: 10.0.0.0/8, action: prohibit",
                      "kind: RoutingRuleConfig, name: '8', src: 'fd00::/8', table: main",
                      "kind: BlackholeRouteConfig, name: 10.200.0.0/16",
                      "kind: LinkConfig, name: eth0"})),
      ElementsAre("eth0", "ra/eth0", "blackhole 10.200.0.0/16 metric 1024 table 0",
                  "inet4 1500 from  to  unicast 77", "inet6 1500 from  to  unicast 77",
                  "inet4 7 from  to 10.0.0.0/8 prohibit ",
                  "inet6 8 from fd00::/8 to  unicast main"));
}

// Catches: bridgePort.master that makes another network than the list of the bridge's ports.
TEST(DocumentsPlan, ABridgePortIsAPortOfTheBridge) {
  auto shown = [](const std::string& interfaces) {
    auto text = "machine: {type: controlplane, network: {interfaces: [" + interfaces + "]}}\n";
    MachineText machine(config::parse(kj::arrayPtr(text.data(), text.size())));
    auto known = threeCards();
    auto lines =
        linesOf(planNetwork(KernelArguments(""_kj.asArray()), machine.get(), known, nullptr));
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  EXPECT_EQ(shown("{interface: br7, bridge: {interfaces: [eth1]}}, {interface: eth1}"),
            shown("{interface: br7, bridge: {}}, {interface: eth1, bridgePort: {master: br7}}"));
  EXPECT_THAT(shown("{interface: eth1, bridgePort: {master: br7}}, {interface: br7, bridge: {}}"),
              ::testing::Contains("eth1 in br7"));
  EXPECT_THAT(shown("{interface: br7, bridge: {interfaces: [eth1]}}, {interface: br8, bridge: {}}, "
                    "{interface: eth1, bridgePort: {master: br8}}"),
              ::testing::Contains("problem br8: its link eth1 is in br7 already"));
}

// Catches: a card that loses DHCP, its addresses and its shared address to a bridge that does not
// exist, or that becomes a part of a bond.
TEST(DocumentsPlan, APortWithoutItsBridgeKeepsItsAddresses) {
  auto shown = [](const std::string& master, const std::string& more = "") {
    auto text =
        "machine: {type: controlplane, network: {interfaces: [{interface: eth0, dhcp: true, "
        "addresses: [10.0.0.2/24], vip: {ip: 10.0.0.9}, bridgePort: {master: " +
        master + "}}" + more + "]}}\n";
    MachineText machine(config::parse(kj::arrayPtr(text.data(), text.size())));
    auto known = threeCards();
    std::string lines;
    for (auto& line :
         linesOf(planNetwork(KernelArguments(""_kj.asArray()), machine.get(), known, nullptr))) {
      if (line.find("eth0") != line.npos) lines += line + "\n";
    }
    return lines;
  };
  auto kept = [](const std::string& master) {
    return "eth0\ndhcp4/eth0\nra/eth0\n10.0.0.2/24 on eth0\nshared 10.0.0.9 on eth0\nproblem eth0: "
           "bridgePort is ignored: no other entry makes the bridge " +
           master + "\n";
  };
  EXPECT_EQ(kept("br0"), shown("br0"));
  EXPECT_EQ(kept("eth0"), shown("eth0"));
  EXPECT_EQ(kept("a b"), shown("a b"));
  EXPECT_EQ(kept("bond0"), shown("bond0", ", {interface: bond0, bond: {interfaces: [eth1]}}"));
  EXPECT_EQ(kept("br0"), shown("br0", ", {interface: br0, bridge: {}, ignore: true}"));
  EXPECT_THAT(shown("eth0", ", {interface: eth0, bridge: {}}"),
              ::testing::StartsWith("eth0 bridge\n"))
      << "a bridge is not in itself";
}

// Catches: a DUID that networkd does not get although its requests to routers' servers carry it.
TEST(DocumentsPlan, ADuidActsWithoutDhcpv6) {
  std::string text =
      "machine: {type: controlplane, network: {interfaces: [{interface: eth0, dhcp: true, "
      "dhcpOptions: {duidv6: 0003000102}}]}}\n";
  auto config = config::parse(kj::arrayPtr(text.data(), text.size()));
  for (auto& problem : config.problems()) {
    EXPECT_EQ(nullptr, strstr(problem.path.cStr(), "duidv6")) << problem.toString().cStr();
  }
  MachineText machine(kj::mv(config));
  auto known = threeCards();
  auto plan = planNetwork(KernelArguments(""_kj.asArray()), machine.get(), known);
  ASSERT_EQ("ra", plan.operators[1].kind);
  EXPECT_EQ(5u, plan.operators[1].duid.size());
}

// Catches: an alias that is taken for the name of a card; a document that is carried out on one of
// several cards.
TEST(DocumentsPlan, AnAliasIsTheOneCardThatItsSelectorMatches) {
  auto alias =
      "kind: LinkAliasConfig, name: up0, selector: {match: 'mac(link.permanent_addr) == "
      "\"02:00:00:00:00:02\"'}";
  EXPECT_THAT(linesOf(planOf({alias, "kind: DHCPv4Config, name: up0"})),
              ElementsAre("eth1", "dhcp4/eth1", "ra/eth1"));
  EXPECT_THAT(
      linesOf(planOf({alias, "kind: BondConfig, name: b, links: [up0], bondMode: 802.3ad"})),
      ElementsAre("b bond", "eth1 in b", "ra/b"));
  auto two =
      planOf({"kind: LinkAliasConfig, name: up0, selector: {match: 'link.driver == \"igb\"'}",
              "kind: DHCPv4Config, name: up0"});
  EXPECT_THAT(linesOf(two), ElementsAre("problem LinkAliasConfig up0: eth1, eth2 match; add "
                                        "conditions until only one matches"));
  ASSERT_EQ(1u, two.unresolved.size());
  EXPECT_EQ("up0", two.unresolved[0].selector);
  EXPECT_THAT(linesOf(planOf({alias, "kind: DHCPv4Config, name: up0"}, nullptr, false)),
              ElementsAre());
}

// Catches: a value of a document that an item of the main document for the same link hides; one
// that a document does not set and that it removes.
TEST(DocumentsPlan, ADocumentReplacesSingleValuesOfTheMainDocument) {
  auto shown = [](const std::string& interface, std::initializer_list<const char*> documents) {
    std::string text =
        "machine: {type: controlplane, network: {interfaces: [{" + interface + "}]}}\n";
    for (auto document : documents) {
      text += std::string("---\n{apiVersion: v1alpha1, ") + document + "}\n";
    }
    MachineText machine(config::parse(kj::arrayPtr(text.data(), text.size())));
    auto known = threeCards();
    auto plan = planNetwork(KernelArguments(""_kj.asArray()), machine.get(), known, nullptr);
    std::string all;
    for (auto& link : plan.links) all += kj::str(link.name, " ", link.mtu, "; ").cStr();
    for (auto& one : plan.operators) {
      if (one.kind == "ra"_kj) continue;
      all += kj::str(one.kind, " ", one.metric, one.ignoreHostname ? " no name; " : "; ").cStr();
    }
    return all;
  };
  auto mtu = "kind: LinkConfig, name: eth0, mtu: 9000";
  auto dhcp4 = "kind: DHCPv4Config, name: eth0, routeMetric: 300, ignoreHostname: true";
  auto both = "interface: eth0, dhcp: true, dhcpOptions: {routeMetric: 7, ipv6: true}";
  EXPECT_EQ("eth0 9000; dhcp4 300 no name; ",
            shown("interface: eth0, mtu: 1400, dhcp: true", {mtu, dhcp4}));
  EXPECT_EQ("eth0 1400; dhcp4 7; ",
            shown("interface: eth0, mtu: 1400, dhcp: true, dhcpOptions: {routeMetric: 7}",
                  {"kind: LinkConfig, name: eth0"}));
  EXPECT_EQ("eth0 0; dhcp6 7; dhcp4 300 no name; ", shown(both, {dhcp4}));
  EXPECT_EQ("eth0 0; dhcp4 7; dhcp6 9; ",
            shown(both, {"kind: DHCPv6Config, name: eth0, routeMetric: 9"}));
  auto vlans =
      "interface: eth0, mtu: 1500, vlans: [{vlanId: 5, mtu: 1400, dhcp: true, dhcpOptions: "
      "{routeMetric: 7}}, {vlanId: 6, mtu: 1300}]";
  EXPECT_EQ("eth0 1500; eth0.5 1380; eth0.6 1300; dhcp4 300 no name; ",
            shown(vlans, {"kind: LinkConfig, name: eth0.5, mtu: 1380",
                          "kind: DHCPv4Config, name: eth0.5, routeMetric: 300, ignoreHostname: "
                          "true"}));
}

// Catches: the host name of a lease that the config ignores; search domains of a lease beside those
// of the config.
TEST(DocumentsPlan, NamesOfALeaseThatTheConfigDoesNotWant) {
  Lease lease;
  lease.kind = kj::str("dhcp4");
  lease.link = kj::str("eth0");
  lease.addresses.add(KJ_ASSERT_NONNULL(Prefix::parse("10.0.0.2/24")));
  lease.hostname = kj::str("from-dhcp.lease.test");
  lease.search.add(kj::str("lease.test"));
  kj::ArrayPtr<const Lease> leases(&lease, 1);
  auto taken = planOf({"kind: DHCPv4Config, name: eth0"}, leases);
  EXPECT_EQ("from-dhcp", taken.hostname);
  EXPECT_EQ("lease.test", kj::strArray(taken.search, " "));
  auto ignored = planOf({"kind: DHCPv4Config, name: eth0, ignoreHostname: true",
                         "kind: ResolverConfig, searchDomains: {domains: [a.test, b.test]}"},
                        leases);
  EXPECT_EQ("talos-10-0-0-2", ignored.hostname);
  EXPECT_EQ("a.test b.test", kj::strArray(ignored.search, " "));
  auto none = planOf({"kind: DHCPv4Config, name: eth0",
                      "kind: ResolverConfig, searchDomains: {domains: [], disableDefault: true}"},
                     leases);
  EXPECT_EQ(0u, none.search.size());
}

}  // namespace
}  // namespace talos::machined
