// Documents of VRFs, pairs of veth, routing rules, blackhole routes, and tables of routes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/config/documents/test-documents.h"

namespace talos::config {
namespace {

using ::testing::HasSubstr;

// Returns the items that the documents add to the view, one a line.
std::string shown(std::initializer_list<const char*> documents) {
  auto text = mainDocument();
  for (auto document : documents) text += oneDocument(document);
  EXPECT_EQ("", problemsIn(text));
  auto config = parsed(text);
  auto network = config.get().getMachine().getNetwork();
  kj::Vector<kj::String> lines;
  auto addRoute = [&](Route::Reader route) {
    lines.add(kj::str("route ", route.getNetwork(), " via ", route.getGateway(), " metric ",
                      route.getMetric(), " table ", route.getTable(), " ", route.getType()));
  };
  for (auto link : network.getInterfaces()) {
    auto line = kj::str(link.getInterface(), " ", link.getMtu());
    if (link.hasVrf()) {
      auto vrf = link.getVrf();
      line = kj::str(line, " vrf ", vrf.getTable(), " of ",
                     kj::strArray(KJ_MAP(m, vrf.getInterfaces()) { return kj::str(m); }, " "));
    }
    if (link.hasVeth()) line = kj::str(line, " veth ", link.getVeth().getPeer());
    for (auto address : link.getAddresses()) line = kj::str(line, " ", address);
    lines.add(kj::mv(line));
    for (auto route : link.getRoutes()) addRoute(route);
  }
  for (auto route : network.getRoutes()) addRoute(route);
  for (auto rule : network.getRoutingRules()) {
    lines.add(kj::str("rule ", rule.getPriority(), " from ", rule.getSource(), " to ",
                      rule.getDestination(), " in ", rule.getInLinkName(), " out ",
                      rule.getOutLinkName(), " mark ", rule.getFwMark(), "/", rule.getFwMask(), " ",
                      rule.getAction(), " ", rule.getTable()));
  }
  if (!network.getOnlyConfigured()) lines.add(kj::str("DHCP by default"));
  return kj::strArray(lines, "\n").cStr();
}

// Catches: a member or the table of a VRF that is lost; a peer without the keys that it has for
// itself, or that gets those of the other end.
TEST(RoutingDocuments, OfLinksSetWhatTheyGive) {
  EXPECT_EQ("red 0 vrf 77 of p4 p5 10.7.0.1/32",
            shown({"kind: VRFConfig, name: red, table: 77, links: [p4, p5], addresses: [{address: "
                   "10.7.0.1/32}]"}));
  EXPECT_EQ("red 0 vrf 252 of ", shown({"kind: VRFConfig, name: red, table: '252'"}));
  EXPECT_EQ("va 0 veth vb\nvb 0 veth va", shown({"kind: VethConfig, name: va, peer: {name: vb}"}));
  EXPECT_EQ(
      "va 1400 veth vb 10.1.0.1/30\nvb 1300 veth va 10.1.0.2/30\n"
      "route 10.9.0.0/16 via 10.1.0.1 metric 1024 table 77 unicast",
      shown({"kind: VethConfig, name: va, mtu: 1400, addresses: [{address: 10.1.0.1/30}], peer: "
             "{name: vb, mtu: 1300, addresses: [{address: 10.1.0.2/30}], routes: [{destination: "
             "10.9.0.0/16, gateway: 10.1.0.1, table: 77}]}"}));
}

// Catches: a rule that holds for other packets than its document says, or leads to another table; a
// blackhole that is a route of a link; DHCP that ends because of such a document.
TEST(RoutingDocuments, OfRulesAndBlackholesSetWhatTheyGive) {
  EXPECT_EQ("rule 1500 from 10.77.0.0/16 to  in  out  mark 0/0 unicast 77\nDHCP by default",
            shown({"kind: RoutingRuleConfig, name: '1500', src: 10.77.0.0/16, table: 77"}));
  EXPECT_EQ(
      "rule 7 from  to fd00::/8 in a out b mark 1/255 prohibit 0\n"
      "rule 8 from  to  in  out  mark 0/0 unicast 254\nDHCP by default",
      shown({"kind: RoutingRuleConfig, name: 7, dst: 'fd00::/8', action: prohibit, iifName: a, "
             "oifName: b, fwMark: 1, fwMask: 255",
             "kind: RoutingRuleConfig, name: 8, table: main"}));
  EXPECT_EQ(
      "route 10.200.0.0/16 via  metric 1024 table 0 blackhole\n"
      "route fd00:1::/32 via  metric 5 table 0 blackhole\nDHCP by default",
      shown({"kind: BlackholeRouteConfig, name: 10.200.0.0/16",
             "kind: BlackholeRouteConfig, name: 'fd00:1::/32', metric: 5"}));
}

// Catches: a table that is taken for another one, or a name of a table that is not read.
TEST(RoutingDocuments, TablesHaveNamesOrNumbers) {
  const std::pair<const char*, const char*> rows[] = {
      {"77", "77"}, {"'77'", "77"},  {"1", "1"},         {"252", "252"},   {"main", "0"},
      {"254", "0"}, {"unspec", "0"}, {"default", "253"}, {"local", "255"}, {"''", "0"}};
  for (auto& [given, table] : rows) {
    auto document = std::string("kind: LinkConfig, name: a, routes: [{gateway: 10.0.0.1, table: ") +
                    given + "}]";
    EXPECT_EQ(
        std::string("a 0\nroute 0.0.0.0/0 via 10.0.0.1 metric 1024 table ") + table + " unicast",
        shown({document.c_str()}))
        << given;
  }
}

// Catches: a value that the kernel refuses, or takes for something else, which validation lets
// pass; an error without its place.
TEST(RoutingDocuments, WhatCannotBeIsAnError) {
  struct {
    const char* document;
    const char* problem;
  } rows[] = {
      {"kind: LinkConfig, name: a, routes: [{gateway: 10.0.0.1, table: 256}]",
       "LinkConfig[a].routes[0].table: \"256\" is not a table of routes; use 1 to 252, default"},
      {"kind: VRFConfig, name: red", "VRFConfig[red].table: required key is missing"},
      {"kind: VRFConfig, name: red, table: main",
       "VRFConfig[red].table: \"main\" cannot be the table of a VRF; use 1 to 252"},
      {"kind: VRFConfig, name: red, table: 0", "VRFConfig[red].table: \"0\" cannot be the table"},
      {"kind: VRFConfig, name: red, table: 255", "VRFConfig[red].table: \"255\" cannot be"},
      {"kind: VRFConfig, name: red, table: 7, links: [red]",
       "VRFConfig[red].links[0]: a VRF cannot have itself as a link"},
      {"kind: VRFConfig, name: red, table: 7, hardwareAddr: '02:00:00:00:00:01'",
       "VRFConfig[red].hardwareAddr: this system does not set"},
      {"kind: VethConfig, name: va", "VethConfig[va].peer: required key is missing"},
      {"kind: VethConfig, name: va, peer: {mtu: 9000}",
       "VethConfig[va].peer.name: required key is missing"},
      {"kind: VethConfig, name: va, peer: {name: va}",
       "VethConfig[va].peer.name: a link cannot be its own peer"},
      {"kind: VethConfig, name: va, peer: {name: sixteencharacter}",
       "VethConfig[va].peer.name: \"sixteencharacter\" is not a valid link name"},
      {"kind: VethConfig, name: a/b, peer: {name: va}",
       "VethConfig[a/b].name: \"a/b\" is not a valid link name"},
      {"kind: VethConfig, name: va, peer: {name: vb, up: false}",
       "VethConfig[va].peer.up: this system does not set a link down"},
      {"kind: VethConfig, name: va, peer: {name: vb, addresses: [{address: x}]}",
       "VethConfig[va].peer.addresses[0].address: \"x\" is not a valid address"},
      {"kind: VethConfig, name: va, peer: {name: vb, mtu: 9}",
       "warning: VethConfig[va].peer.mtu: not a valid MTU of a link: 9"},
      {"kind: RoutingRuleConfig, name: x, table: 7",
       "RoutingRuleConfig[x].name: \"x\" is not a priority; use a number"},
      {"kind: RoutingRuleConfig, name: '4294967296', table: 7",
       "RoutingRuleConfig[4294967296].name: \"4294967296\" is not a priority"},
      {"kind: RoutingRuleConfig, name: 0, table: 7",
       "RoutingRuleConfig[0].name: 0 is the priority of a rule of the system"},
      {"kind: RoutingRuleConfig, name: 32766, table: 7", "32766 is the priority of a rule"},
      {"kind: RoutingRuleConfig, name: 5", "RoutingRuleConfig[5]: the rule has no table"},
      {"kind: RoutingRuleConfig, name: 5, table: unspec", "RoutingRuleConfig[5]: the rule has no"},
      {"kind: RoutingRuleConfig, name: 5, table: red",
       "RoutingRuleConfig[5].table: \"red\" is not a table of routes"},
      {"kind: RoutingRuleConfig, name: 5, table: 7, src: 10.0.0.1",
       "RoutingRuleConfig[5].src: \"10.0.0.1\" is not a valid network"},
      {"kind: RoutingRuleConfig, name: 5, table: 7, src: 10.0.0.0/8, dst: 'fd00::/8'",
       "RoutingRuleConfig[5].dst: src and dst are not both IPv4 or both IPv6"},
      {"kind: RoutingRuleConfig, name: 5, table: 7, oifName: a b",
       "RoutingRuleConfig[5].oifName: \"a b\" is not a valid link name"},
      {"kind: RoutingRuleConfig, name: 5, table: 7, fwMask: 1",
       "RoutingRuleConfig[5].fwMask: a mask has no effect without fwMark"},
      {"kind: RoutingRuleConfig, name: 5, table: 7, action: prohibit",
       "warning: RoutingRuleConfig[5].table: this has no effect: packets of this action use no"},
      {"kind: RoutingRuleConfig, name: 5, action: goto", "RoutingRuleConfig[5].action: "},
      {"kind: BlackholeRouteConfig, name: 10.0.0.1",
       "BlackholeRouteConfig[10.0.0.1].name: \"10.0.0.1\" is not a valid network"},
  };
  for (auto& row : rows) {
    EXPECT_THAT(problemsIn(mainDocument() + oneDocument(row.document)), HasSubstr(row.problem))
        << row.document;
  }
}

// Catches: two documents that would make one link, or one rule, of which the kernel gets neither or
// both.
TEST(RoutingDocuments, OneDocumentDescribesALinkOrAPriority) {
  auto pair = oneDocument("kind: VethConfig, name: va, peer: {name: vb}");
  EXPECT_THAT(problemsIn(mainDocument() + pair + oneDocument("kind: LinkConfig, name: vb")),
              HasSubstr("LinkConfig[vb].name: VethConfig[va] describes the same link"));
  EXPECT_THAT(problemsIn(mainDocument() + oneDocument("kind: DummyLinkConfig, name: vb") + pair),
              HasSubstr("VethConfig[va].peer.name: DummyLinkConfig[vb] describes the same link"));
  EXPECT_THAT(problemsIn(mainDocument() + pair +
                         oneDocument("kind: VethConfig, name: vc, peer: {name: vb}")),
              HasSubstr("VethConfig[vc].peer.name: VethConfig[va] describes the same link"));
  EXPECT_THAT(
      problemsIn(mainDocument() + oneDocument("kind: RoutingRuleConfig, name: '7', table: 7") +
                 oneDocument("kind: RoutingRuleConfig, name: '07', table: 8")),
      HasSubstr("RoutingRuleConfig[07].name: RoutingRuleConfig[7] has the same priority"));
  EXPECT_THAT(problemsIn(mainDocument("interfaces: [{interface: br7, bridge: {interfaces: [p]}}]") +
                         oneDocument("kind: VRFConfig, name: red, table: 7, links: [p]")),
              HasSubstr("VRFConfig[red].links[0]: \"p\" is already in br7; a link can be in only"));
  EXPECT_THAT(
      problemsIn(mainDocument() +
                 oneDocument("kind: VRFConfig, name: red, table: 7, links: [p, blue]") +
                 oneDocument("kind: VRFConfig, name: blue, table: 8")),
      HasSubstr("VRFConfig[red].links[1]: \"blue\" is a VRF and cannot be in another VRF; remove"));
  EXPECT_EQ(
      "",
      problemsIn(mainDocument() + oneDocument("kind: VRFConfig, name: red, table: 7, links: [b]") +
                 oneDocument("kind: BondConfig, name: b, links: [p], bondMode: 802.3ad")));
  EXPECT_THAT(
      problemsIn(mainDocument() + oneDocument("kind: BlackholeRouteConfig, name: 10.0.0.0/8") +
                 oneDocument("kind: BlackholeRouteConfig, name: 10.1.2.3/8")),
      HasSubstr("BlackholeRouteConfig[10.1.2.3/8].name: BlackholeRouteConfig[10.0.0.0/8] has "
                "the same network and metric (1024)"));
  // Its addresses act: a VRF leaves them to its links.
  EXPECT_EQ("", problemsIn(mainDocument() +
                           oneDocument("kind: VRFConfig, name: red, table: 7, links: [p]") +
                           oneDocument("kind: LinkConfig, name: p, addresses: [{address: "
                                       "10.0.0.2/24}]")));
  // One network may have a route in each table.
  EXPECT_EQ("", problemsIn(mainDocument() +
                           oneDocument("kind: LinkConfig, name: p, addresses: [{address: "
                                       "10.0.0.2/24}], routes: [{gateway: 10.0.0.1}, {gateway: "
                                       "10.0.0.1, table: 7}]")));
}

}  // namespace
}  // namespace talos::config
