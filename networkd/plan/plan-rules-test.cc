// Plans for routing rules, tables of routes, VRFs and pairs of veth, on the model kernel.
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <algorithm>
#include <string>

#include "common/netlink/model/test-kernel.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-ip.h"
#include "networkd/plan/network-plan.h"

namespace talos::networkd {
namespace {

using netlink::TestKernel;

WantedLink link(kj::StringPtr name, kj::StringPtr kind = "", kj::StringPtr master = "") {
  WantedLink result;
  result.name = kj::str(name);
  result.version = 1;
  result.kind = kj::str(kind);
  result.master = kj::str(master);
  return result;
}
WantedLink vrf(kj::StringPtr name, uint32_t table) {
  auto result = link(name, "vrf");
  result.vrfTable = table;
  return result;
}
WantedLink end(kj::StringPtr name, kj::StringPtr peer) {
  auto result = link(name, "veth");
  result.peer = kj::str(peer);
  return result;
}
WantedRule rule(uint32_t priority, uint32_t table, kj::StringPtr from = "", int family = AF_INET) {
  netlink::Rule result{.family = family, .priority = priority, .table = table, .protocol = kMark};
  if (from.size() > 0) result.from = prefix(from);
  return WantedRule{kj::mv(result), 1};
}

struct RuleBench {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0"), eth1 = kernel.plug("eth1");
  std::set<uint32_t> tables;
  bool ipv6 = true;

  RuleBench() {
    for (unsigned index : {1u, eth0, eth1}) netlink::setUp(kernel, index);
  }
  Plan next(const Wanted& wanted) {
    addTables(tables, wanted);
    return plan(wanted, observe(kernel, ipv6, 0, tables));
  }
  // Applies changes until nothing is left to do; returns them one a line, problems at the end.
  std::string settle(const Wanted& wanted) {
    std::string said;
    for (unsigned round = 0; round < 8; ++round) {
      auto todo = next(wanted);
      if (todo.steps.size() == 0) {
        for (auto& problem : todo.problems) said += "! " + std::string(problem.cStr()) + "\n";
        return said;
      }
      for (auto& step : todo.steps) {
        said += std::string(netlink::describe(step.change).cStr()) + "\n";
        for (auto& failure : kernel.apply(kj::arrayPtr(&step.change, 1))) {
          KJ_IF_MAYBE (f, failure) ADD_FAILURE() << f->message.cStr();
        }
      }
    }
    ADD_FAILURE() << "does not settle";
    return said;
  }
};

// Catches: a rule that is added again and again, one that stays after its spec, another program's
// rule that is removed; a changed rule beside its old one.
TEST(PlanRules, AreAddedChangedAndRemoved) {
  RuleBench bench;
  netlink::Rule foreign{.priority = 900, .table = 5, .protocol = RTPROT_STATIC};
  bench.kernel.put(foreign);
  auto usual = bench.kernel.rules().size();
  Wanted wanted;
  wanted.rules.add(rule(1500, 77, "10.77.0.0/16"));
  wanted.rules.add(rule(1500, 77, "", AF_INET6));
  EXPECT_EQ(bench.settle(wanted),
            "add rule inet4 1500: from 10.77.0.0/16 lookup 77\n"
            "add rule inet6 1500: from all lookup 77\n");
  EXPECT_EQ(bench.settle(wanted), "");
  EXPECT_EQ(bench.next(wanted).applied, 2u);
  wanted.rules[0] = rule(1500, 78, "10.77.0.0/16");
  EXPECT_EQ(bench.settle(wanted),
            "delete rule inet4 1500: from 10.77.0.0/16 lookup 77\n"
            "add rule inet4 1500: from 10.77.0.0/16 lookup 78\n");
  EXPECT_EQ(bench.settle(Wanted()),
            "delete rule inet4 1500: from 10.77.0.0/16 lookup 78\n"
            "delete rule inet6 1500: from all lookup 77\n");
  EXPECT_EQ(bench.kernel.rules().size(), usual);
}

// Catches: another program's rule that is taken for networkd's own, and then removed by either; a
// wait for a rule that a kernel without IPv6 never has.
TEST(PlanRules, WhatOthersHaveAndTheKernelCannotHave) {
  RuleBench bench;
  netlink::Rule foreign{.priority = 1500, .table = 77, .protocol = RTPROT_STATIC};
  bench.kernel.put(foreign);
  Wanted wanted;
  wanted.rules.add(rule(1500, 77));
  EXPECT_EQ(bench.settle(wanted), "add rule inet4 1500: from all lookup 77\n");
  EXPECT_EQ(bench.settle(Wanted()), "delete rule inet4 1500: from all lookup 77\n");
  auto left = bench.kernel.rules();
  EXPECT_TRUE(std::find(left.begin(), left.end(), foreign) != left.end());
  wanted.rules[0] = rule(1500, 77, "", AF_INET6);
  bench.ipv6 = false;
  EXPECT_EQ(bench.next(wanted).applied, 1u);
  wanted.rules[0] = rule(1500, 77, "fd00::/8", AF_INET6);
  EXPECT_EQ(bench.settle(wanted),
            "! rule inet6 1500: from fd00::/8 lookup 77: IPv6 is disabled on this node\n");
}

// Catches: routes of two tables taken for one; a route that stays in a table that no spec names any
// more, or in that of a VRF.
TEST(PlanRules, EachTableHasItsRoutes) {
  RuleBench bench;
  Wanted wanted;
  wanted.links.add(link("eth0"));
  wanted.addresses.add(WantedAddress{.link = kj::str("eth0"), .prefix = prefix("10.5.0.2/24")});
  bench.settle(wanted);
  auto route = [&](uint32_t table) -> WantedRoute& {
    auto& added = wanted.routes.add(WantedRoute{.link = kj::str("eth0"),
                                                .destination = Prefix::all(AF_INET),
                                                .metric = 10,
                                                .version = 1,
                                                .table = table});
    added.gateway = ip("10.5.0.1");
    return added;
  };
  route(RT_TABLE_MAIN);
  route(77);
  EXPECT_EQ(bench.settle(wanted),
            "add route 0.0.0.0/0 via 10.5.0.1 link 2 metric 10\n"
            "add route 0.0.0.0/0 via 10.5.0.1 link 2 metric 10 table 77\n");
  EXPECT_EQ(bench.settle(wanted), "");
  EXPECT_EQ(tablesOf(bench.kernel.allRoutes()), (std::set<uint32_t>{77, RT_TABLE_MAIN}));
  wanted.routes.truncate(1);
  EXPECT_EQ(bench.settle(wanted),
            "delete route 0.0.0.0/0 via 10.5.0.1 link 2 metric 10 table 77\n");
  auto& blackhole = route(300);
  blackhole.link = kj::String();
  blackhole.gateway = nullptr;
  blackhole.type = RTN_BLACKHOLE;
  EXPECT_EQ(bench.settle(wanted), "add blackhole route 0.0.0.0/0 metric 10 table 300\n");
}

// Catches: a VRF without its links; a route to a gateway before its network is in the VRF's table;
// addresses of IPv6 that are lost when a link enters the VRF and not added again; a new table that
// is not carried out.
TEST(PlanVrf, HasItsLinksAndTheirRoutes) {
  RuleBench bench;
  Wanted wanted;
  wanted.links.add(link("eth0", "", "red"));
  wanted.links.add(link("eth1"));
  wanted.addresses.add(WantedAddress{.link = kj::str("eth0"), .prefix = prefix("10.5.0.2/24")});
  wanted.addresses.add(WantedAddress{.link = kj::str("eth0"), .prefix = prefix("fd00::2/64")});
  wanted.links.add(vrf("red", 77));
  wanted.routes.add(WantedRoute{.link = kj::str("eth0"),
                                .destination = Prefix::all(AF_INET),
                                .gateway = ip("10.5.0.1"),
                                .metric = 10,
                                .version = 1,
                                .table = 77});
  EXPECT_EQ(bench.settle(wanted),
            "add link red, vrf of table 77\n"
            "add address 10.5.0.2/24 to link 2\n"
            "add address fd00::2/64 to link 2\n"
            "add route 0.0.0.0/0 via 10.5.0.1 link 2 metric 10 table 77\n"
            "set link 2 master 4\n"
            "set link 4 up\n"
            "add address fd00::2/64 to link 2\n"
            "add route 0.0.0.0/0 via 10.5.0.1 link 2 metric 10 table 77\n");
  auto connected = [&](uint32_t table) {
    for (auto& route : bench.kernel.routesOf(table)) {
      if (route.destination == prefix("10.5.0.0/24")) return true;
    }
    return false;
  };
  EXPECT_TRUE(connected(77));
  EXPECT_FALSE(connected(RT_TABLE_MAIN));
  // Another table.
  wanted.links[2].vrfTable = 78;
  wanted.routes[0].table = 78;
  auto said = bench.settle(wanted);
  EXPECT_NE(said.find("delete link 4\n"), std::string::npos) << said;
  EXPECT_NE(said.find("add link red, vrf of table 78\n"), std::string::npos) << said;
  EXPECT_TRUE(connected(78));
  // The link leaves, and the VRF goes with its document.
  Wanted without;
  without.links.add(link("eth0"));
  without.links.add(link("eth1"));
  bench.settle(without);
  EXPECT_EQ(KJ_ASSERT_NONNULL(netlink::findLink(bench.kernel, "eth0")).master, 0u);
  EXPECT_TRUE(netlink::findLink(bench.kernel, "red") == nullptr);
  EXPECT_EQ(bench.kernel.routesOf(78).size(), 0u);
}

// Catches: a second pair for the other end; an end that stays when the document names another peer;
// two removals, of which the kernel refuses the second; a pair of another program that is removed.
TEST(PlanVeth, APairIsMadeAndRemovedAtOnce) {
  RuleBench bench;
  auto pair = [](kj::StringPtr peer) {
    Wanted wanted;
    wanted.links.add(end("va", peer));
    wanted.links.add(end(peer, "va"));
    wanted.links[1].mtu = 1400;
    wanted.addresses.add(WantedAddress{.link = kj::str("va"), .prefix = prefix("10.1.0.1/30")});
    return wanted;
  };
  EXPECT_EQ(bench.settle(pair("vb")),
            "add link va, veth with the peer vb\n"
            "set link 4 mtu 1400\n"
            "set link 4 up\n"
            "set link 5 up\n"
            "add address 10.1.0.1/30 to link 5\n");
  EXPECT_EQ(bench.settle(pair("vb")), "");
  EXPECT_EQ(bench.settle(pair("vc")),
            "delete link 4\n"
            "add link va, veth with the peer vc\n"
            "set link 6 mtu 1400\n"
            "set link 6 up\n"
            "set link 7 up\n"
            "add address 10.1.0.1/30 to link 7\n");
  EXPECT_TRUE(netlink::findLink(bench.kernel, "vb") == nullptr);
  auto gone = bench.settle(Wanted());
  EXPECT_EQ(gone.find("delete link"), gone.rfind("delete link")) << gone;
  EXPECT_TRUE(netlink::findLink(bench.kernel, "va") == nullptr);

  netlink::addVeth(bench.kernel, "vb", "elsewhere");
  EXPECT_EQ(
      bench.settle(pair("vb")),
      "! link vb: the link exists already and is veth, not this veth; networkd did not create "
      "it and leaves it as it is\n"
      "! link va: its peer vb exists already and is not the other end of this pair\n"
      "! address 10.1.0.1/30 on va: unknown link \"va\"; known links: lo, eth0, eth1, "
      "elsewhere, vb\n");
}

}  // namespace
}  // namespace talos::networkd
