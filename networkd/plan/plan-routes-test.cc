// Attributes and types of routes, the order of addresses, and the restored MTU of hardware.
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <linux/if_addr.h>

#include <string>

#include "common/netlink/model/test-kernel.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-ip.h"
#include "networkd/plan/first-mtus.h"
#include "networkd/plan/network-status.h"

namespace talos::networkd {
namespace {

using netlink::TestKernel;

struct RouteBench {
  TestKernel kernel;
  std::vector<FirstMtu> firstMtus;
  unsigned eth0 = kernel.plug("eth0");

  Observed observed() {
    auto result = observe(kernel, true, 0);
    result.firstMtus = firstMtus;
    return result;
  }
  Plan next(const Wanted& wanted) { return plan(wanted, observed()); }

  // Applies changes until nothing is left to do; returns them one a line, problems at the end.
  std::string settle(const Wanted& wanted) {
    std::string said;
    for (unsigned round = 0; round < 8; ++round) {
      auto todo = next(wanted);
      if (todo.steps.size() == 0) {
        for (auto& problem : todo.problems) said += "! " + std::string(problem.cStr()) + "\n";
        return said;
      }
      for (auto& step : todo.steps)
        said += std::string(netlink::describe(step.change).cStr()) + "\n";
      auto changes = KJ_MAP(step, todo.steps) {
        return kj::mv(step.change);
      };
      for (auto& failure : kernel.apply(changes)) {
        KJ_IF_MAYBE (f, failure) ADD_FAILURE() << f->message.cStr();
      }
    }
    ADD_FAILURE() << "does not settle";
    return said;
  }
};

Wanted up(std::initializer_list<kj::StringPtr> addresses) {
  Wanted wanted;
  wanted.links.add(WantedLink{.name = kj::str("eth0"), .version = 1});
  unsigned order = 0;
  for (auto text : addresses) {
    wanted.addresses.add(WantedAddress{
        .link = kj::str("eth0"), .prefix = prefix(text), .version = 1, .order = order++});
  }
  return wanted;
}

using Fill = kj::FunctionParam<void(WantedRoute&)>;
Wanted routed(Fill fill) {
  auto wanted = up({"10.5.0.2/24", "10.5.0.3/24", "fd00::2/64"});
  auto& route = wanted.routes.add(WantedRoute{
      .link = kj::str("eth0"), .destination = prefix("10.9.0.0/16"), .metric = 10, .version = 1});
  route.gateway = ip("10.5.0.1");
  fill(route);
  return wanted;
}
void nowhere(WantedRoute& route, uint8_t type) {
  route.link = kj::String();
  route.gateway = nullptr;
  route.type = type;
}

// Catches: an attribute that is not sent, that is sent again and again, or whose change removes the
// route for a moment; from each to each other and back.
TEST(PlanRoutes, EveryAttributeIsChangedInOneStep) {
  struct {
    void (*fill)(WantedRoute&);
    const char* words;
  } rows[] = {
      {[](WantedRoute&) {}, "route 10.9.0.0/16 via 10.5.0.1 link 2 metric 10"},
      {[](WantedRoute& r) { r.source = ip("10.5.0.3"); },
       "route 10.9.0.0/16 via 10.5.0.1 link 2 metric 10 source 10.5.0.3"},
      {[](WantedRoute& r) { r.mtu = 1400; },
       "route 10.9.0.0/16 via 10.5.0.1 link 2 metric 10 mtu 1400"},
      {[](WantedRoute& r) { r.gateway = ip("192.0.2.1"), r.onlink = true; },
       "route 10.9.0.0/16 via 192.0.2.1 link 2 metric 10 onlink"},
      {[](WantedRoute& r) { r.onlink = true; },
       "route 10.9.0.0/16 via 10.5.0.1 link 2 metric 10 onlink"},
      {[](WantedRoute& r) { nowhere(r, RTN_BLACKHOLE); }, "blackhole route 10.9.0.0/16 metric 10"},
      {[](WantedRoute& r) { nowhere(r, RTN_UNREACHABLE); },
       "unreachable route 10.9.0.0/16 metric 10"},
      {[](WantedRoute& r) { nowhere(r, RTN_PROHIBIT); }, "prohibit route 10.9.0.0/16 metric 10"},
  };
  for (auto& from : rows) {
    for (auto& to : rows) {
      SCOPED_TRACE(std::string(from.words) + " to " + to.words);
      RouteBench bench;
      auto a = routed(from.fill), b = routed(to.fill);
      bench.settle(a);
      EXPECT_EQ("", bench.settle(a));
      auto change = [&](const char* words) {
        return &from == &to ? std::string() : "replace " + std::string(words) + "\n";
      };
      EXPECT_EQ(change(to.words), bench.settle(b));
      EXPECT_EQ(change(from.words), bench.settle(a));
      EXPECT_EQ(bench.next(a).applied, 5u);
      EXPECT_NE(std::string::npos, bench.settle(up({"10.5.0.2/24"})).find("delete"));
      for (auto& route : bench.kernel.routes()) EXPECT_NE(route.destination, prefix("10.9.0.0/16"));
    }
  }
}

// Catches: a gateway that is added before the route to it.
TEST(PlanRoutes, TheWayToAGatewayComesBeforeIt) {
  RouteBench bench;
  auto wanted = up({"10.5.0.2/24"});
  wanted.routes.add(WantedRoute{
      .link = kj::str("eth0"), .destination = Prefix::all(AF_INET), .gateway = ip("192.0.2.1")});
  wanted.routes.add(WantedRoute{.link = kj::str("eth0"), .destination = prefix("192.0.2.1/32")});
  bench.settle(wanted);
  EXPECT_TRUE(hasDefaultRoute(bench.observed()));
}

// Catches: a route that the kernel never accepts, added again and again, while the boot waits for
// it; a route that the kernel does accept, left out.
TEST(PlanRoutes, AGatewayOnLoopbackIsInItsNetwork) {
  struct {
    const char* gateway;
    bool onlink, accepted;
  } rows[] = {{"10.67.50.1", false, false},  {"10.67.50.1", true, true},
              {"198.51.100.9", false, true}, {"198.51.100.9", true, false},
              {"fd00::9", false, false},     {"fd00::9", true, false}};
  for (auto& row : rows) {
    RouteBench bench;
    Wanted wanted;
    for (auto text : {"198.51.100.5/24"_kj, "fd00::5/64"_kj}) {
      wanted.addresses.add(WantedAddress{.link = kj::str("lo"), .prefix = prefix(text)});
    }
    auto gateway = ip(row.gateway);
    wanted.routes.add(WantedRoute{.link = kj::str("lo"),
                                  .destination = Prefix::all(gateway.family()),
                                  .gateway = gateway,
                                  .version = 4,
                                  .onlink = row.onlink});
    auto todo = bench.next(wanted);
    EXPECT_EQ(todo.problems.size(), row.accepted ? 0u : 1u) << row.gateway << row.onlink;
    EXPECT_EQ(todo.applied, row.accepted ? 0u : 4u) << row.gateway << row.onlink;
  }
}

// Catches: the MTU of a link that another program has put into its bond.
TEST(PlanRoutes, AMemberOfAnothersBondKeepsItsMtu) {
  RouteBench bench;
  bench.settle(Wanted());
  netlink::addLink(bench.kernel, "bond9", netlink::Bond{});
  auto bond = KJ_ASSERT_NONNULL(netlink::findLink(bench.kernel, "bond9")).index;
  netlink::change(bench.kernel, netlink::SetLink{.index = bench.eth0, .master = bond});
  netlink::change(bench.kernel, netlink::SetLink{.index = bond, .mtu = 9000u});
  bench.firstMtus = {{bench.eth0, 1500}};
  EXPECT_EQ("", bench.settle(Wanted()));
}

// Catches: an IPv6 blackhole that is not recognized, since the kernel shows it on loopback and with
// a different metric.
TEST(PlanRoutes, BlackholesOfIpv6) {
  RouteBench bench;
  auto wanted = up({});
  auto& route = wanted.routes.add(WantedRoute());
  route.destination = prefix("2001:db8:dead::/48");
  route.type = RTN_BLACKHOLE;
  EXPECT_NE(std::string::npos,
            bench.settle(wanted).find("add blackhole route 2001:db8:dead::/48 metric 1024"));
  EXPECT_EQ("", bench.settle(wanted));
}

// Catches: another program's route that is accepted although it leads elsewhere, or reported as a
// problem although it has all requested attributes.
TEST(PlanRoutes, AnotherProgramsRouteInThePlace) {
  RouteBench bench;
  bench.settle(routed([](WantedRoute& r) { r.metric = 77; }));
  netlink::Route theirs{.destination = prefix("10.9.0.0/16"),
                        .gateway = ip("10.5.0.1"),
                        .link = bench.eth0,
                        .metric = 10,
                        .protocol = RTPROT_STATIC,
                        .mtu = 1300};
  netlink::change(bench.kernel, netlink::AddRoute{theirs});
  EXPECT_EQ(bench.settle(routed([](WantedRoute&) {})).find("!"), std::string::npos);
  auto said = bench.settle(routed([](WantedRoute& r) { r.mtu = 1400; }));
  EXPECT_NE(std::string::npos, said.find("metric 10 is used by another route, on eth0")) << said;
  said = bench.settle(routed([](WantedRoute& r) { nowhere(r, RTN_BLACKHOLE); }));
  EXPECT_NE(std::string::npos,
            said.find("! blackhole route 10.9.0.0/16: metric 10 is used by another route"))
      << said;
}

// Returns the addresses of eth0, the primary first.
std::string held(TestKernel& kernel) {
  std::string primaries, secondaries;
  for (auto& address : kernel.addresses()) {
    if (address.link == 1 || address.prefix.address.family() != AF_INET) continue;
    bool secondary = (address.flags & IFA_F_SECONDARY) != 0;
    (secondary ? secondaries : primaries) += std::string(address.prefix.toString().cStr()) + " ";
  }
  return primaries + "| " + secondaries;
}

// Catches: a source address that changes because another address was added first.
TEST(PlanRoutes, TheFirstAddressOfANetworkIsThePrimary) {
  RouteBench bench;
  // The store has its own order of specs.
  auto wanted = up({"10.5.0.9/24", "10.5.0.3/24", "10.6.0.1/24"});
  std::swap(wanted.addresses[0], wanted.addresses[1]);
  bench.settle(wanted);
  EXPECT_EQ("10.5.0.9/24 10.6.0.1/24 | 10.5.0.3/24 ", held(bench.kernel));
  // The replacement must not become secondary to the remaining address.
  bench.settle(up({"10.5.0.7/24", "10.5.0.3/24", "10.6.0.1/24"}));
  EXPECT_EQ("10.6.0.1/24 10.5.0.7/24 | 10.5.0.3/24 ", held(bench.kernel));
  auto said = bench.settle(up({"10.5.0.3/24", "10.5.0.7/24", "10.6.0.1/24"}));
  EXPECT_EQ("10.6.0.1/24 10.5.0.3/24 | 10.5.0.7/24 ", held(bench.kernel));
  EXPECT_EQ(std::string::npos, said.find("10.6.0.1"));
  EXPECT_EQ("", bench.settle(up({"10.5.0.3/24", "10.5.0.7/24", "10.6.0.1/24"})));
}

// Catches: a new first address that is added below the old one and moved only then.
TEST(PlanRoutes, ANewFirstAddressComesBeforeTheOthers) {
  RouteBench bench;
  bench.settle(up({"10.5.0.2/24"}));
  EXPECT_EQ(
      "delete address 10.5.0.2/24 of link 2\n"
      "add address 10.5.0.1/24 to link 2\n"
      "add address 10.5.0.2/24 to link 2\n",
      bench.settle(up({"10.5.0.1/24", "10.5.0.2/24"})));
}

// Catches: another program's address that is lost because it depends on ours.
TEST(PlanRoutes, AnotherProgramsAddressIsNotMoved) {
  RouteBench bench;
  bench.settle(up({"10.5.0.2/24"}));
  netlink::addAddress(bench.kernel, bench.eth0, prefix("10.5.0.50/24"));
  bench.settle(up({"10.5.0.1/24", "10.5.0.2/24"}));
  EXPECT_EQ("10.5.0.2/24 | 10.5.0.50/24 10.5.0.1/24 ", held(bench.kernel));
}

// Catches: hardware that keeps an MTU that no config sets any more; hardware that gets an MTU
// although it was never changed.
TEST(PlanRoutes, HardwareGoesBackToItsMtu) {
  RouteBench bench;
  auto wanted = up({"10.5.0.2/24"});
  wanted.links[0].mtu = 9000;
  bench.settle(wanted);
  auto none = up({"10.5.0.2/24"});
  EXPECT_EQ("", bench.settle(none));  // its first MTU is unknown
  bench.firstMtus = {{bench.eth0, 1500}};
  EXPECT_EQ("", bench.settle(wanted));
  EXPECT_EQ("set link 2 mtu 1500\n", bench.settle(none));
  bench.settle(wanted);
  auto said = bench.settle(Wanted());
  EXPECT_NE(std::string::npos, said.find("set link 2 mtu 1500\n")) << said;
}

// Catches: a partly unreadable file that costs more than its bad lines.
TEST(FirstMtus, AreKeptAsTheyWere) {
  std::vector<FirstMtu> mtus = {{2, 1500}, {7, 9000}};
  EXPECT_STREQ("2 1500\n7 9000\n", format(mtus).cStr());
  EXPECT_TRUE(parseFirstMtus(format(mtus)) == mtus);
  EXPECT_TRUE(parseFirstMtus("").empty());
  EXPECT_TRUE(parseFirstMtus("x\n2 1500\n2 1400\n-1 9\n3\n\n7 9000") == mtus);
}

// Catches: networkd's links that are taken for hardware; a second change that overwrites the first
// MTU; an MTU that is forgotten while a bond has the link.
TEST(FirstMtus, OfHardwareUntilItHasItAgain) {
  RouteBench bench;
  netlink::change(
      bench.kernel,
      netlink::AddLink{.name = kj::str("dummy0"), .kind = netlink::Dummy{}, .group = kMark});
  auto step = [](unsigned link) {
    return Step{netlink::SetLink{.index = link, .mtu = 1400u}, nullptr};
  };
  kj::Vector<Step> steps;
  for (unsigned link : {1u, bench.eth0, bench.eth0 + 1}) steps.add(step(link));
  auto& mtus = bench.firstMtus;
  EXPECT_TRUE(remember(mtus, bench.observed(), steps));
  EXPECT_TRUE((mtus == std::vector<FirstMtu>{{bench.eth0, 1500}}));
  netlink::change(bench.kernel, netlink::SetLink{.index = bench.eth0, .mtu = 1400u});
  EXPECT_FALSE(remember(mtus, bench.observed(), steps));
  Wanted wanted = up({});
  EXPECT_FALSE(forget(mtus, wanted, bench.observed()));
  netlink::change(bench.kernel, netlink::SetLink{.index = bench.eth0, .mtu = 1500u});
  wanted.links[0].master = kj::str("bond0");
  EXPECT_FALSE(forget(mtus, wanted, bench.observed()));
  wanted.links[0].master = kj::String();
  netlink::addLink(bench.kernel, "bond9", netlink::Bond{});  // another program's
  netlink::setUp(bench.kernel, bench.eth0, false);
  netlink::setMaster(bench.kernel, bench.eth0, netlink::indexOf(bench.kernel, "bond9"));
  EXPECT_FALSE(forget(mtus, Wanted(), bench.observed()));
  netlink::setMaster(bench.kernel, bench.eth0, 0);
  EXPECT_TRUE(forget(mtus, wanted, bench.observed()));
  mtus = {{bench.eth0, 1500}, {99, 1500}};
  wanted.links[0].mtu = 1500;
  EXPECT_TRUE(forget(mtus, wanted, bench.observed()));  // the MTU of the removed link
  EXPECT_EQ(mtus.size(), 1u);
}

}  // namespace
}  // namespace talos::networkd
