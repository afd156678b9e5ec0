#include "networkd/plan/network-plan.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <linux/if_addr.h>

#include <random>

#include "common/netlink/model/test-kernel.h"
#include "common/testing/test-ip.h"

namespace talos::networkd {
namespace {

using netlink::TestKernel;

Observed observeNow(TestKernel& kernel, bool ipv6 = true) {
  return {kernel.links(), kernel.addresses(), kernel.routes(), ipv6};
}

WantedLink wantedLink(kj::StringPtr name, bool up = true, unsigned mtu = 0) {
  return {.name = kj::str(name), .up = up, .mtu = mtu, .version = 1};
}
WantedAddress wantedAddress(kj::StringPtr link, kj::StringPtr text) {
  return {.link = kj::str(link), .prefix = prefix(text), .version = 1};
}
WantedRoute route(kj::StringPtr link, kj::StringPtr to, kj::StringPtr via, unsigned metric = 0) {
  WantedRoute result{
      .link = kj::str(link), .destination = prefix(to), .metric = metric, .version = 1};
  if (via.size() > 0) result.gateway = ip(via);
  return result;
}
// eth0 with 10.5.0.2/24 and a default route.
Wanted ordinary() {
  Wanted wanted;
  wanted.links.add(wantedLink("eth0"));
  wanted.addresses.add(wantedAddress("eth0", "10.5.0.2/24"));
  wanted.routes.add(route("eth0", "0.0.0.0/0", "10.5.0.1", 10));
  return wanted;
}

kj::String text(const Plan& plan) {
  auto steps = KJ_MAP(step, plan.steps) {
    return kj::str(netlink::describe(step.change), "\n");
  };
  auto problems = KJ_MAP(problem, plan.problems) {
    return kj::str("! ", problem, "\n");
  };
  return kj::str(kj::strArray(steps, ""), kj::strArray(problems, ""));
}

// Plans and applies until nothing is left; returns the number of rounds.
unsigned settle(const Wanted& wanted, TestKernel& kernel, bool mayFail = false) {
  for (unsigned round = 0; round < 8; ++round) {
    auto todo = plan(wanted, observeNow(kernel));
    if (todo.steps.size() == 0) return round;
    auto changes = KJ_MAP(step, todo.steps) {
      return kj::mv(step.change);
    };
    for (auto& failure : kernel.apply(changes)) {
      KJ_IF_MAYBE (f, failure) {
        if (!mayFail) ADD_FAILURE() << f->message.cStr();
      }
    }
  }
  ADD_FAILURE() << "does not settle:\n" << text(plan(wanted, observeNow(kernel))).cStr();
  return 8;
}

size_t count(TestKernel& kernel, kj::StringPtr destination, kj::StringPtr via) {
  size_t result = 0;
  for (auto& r : kernel.routes())
    result += r.destination == prefix(destination) && r.gateway == ip(via);
  return result;
}

bool has(TestKernel& kernel, kj::StringPtr text) {
  for (auto& a : kernel.addresses()) {
    if (a.prefix == prefix(text)) return true;
  }
  return false;
}

// Catches: a wrong order (routes before their address, an address before its link), and unnecessary
// steps.
TEST(Plan, StepsOfANewMachineInOrder) {
  TestKernel kernel;
  kernel.plug("eth0");
  kernel.plug("eth1");
  EXPECT_STREQ(text(plan(ordinary(), observeNow(kernel))).cStr(),
               "set link 1 up\n"
               "set link 2 up\n"
               "add address 10.5.0.2/24 to link 2\n"
               "add route 0.0.0.0/0 via 10.5.0.1 link 2 metric 10\n");
  EXPECT_EQ(settle(ordinary(), kernel), 1u);
  EXPECT_EQ(plan(ordinary(), observeNow(kernel)).applied, 3u);
}

// Catches: removing an object that networkd did not make; leaving an object that it did make.
TEST(Plan, RemovesOnlyWhatIsItsOwn) {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0");
  settle(ordinary(), kernel);
  netlink::addAddress(kernel, eth0, prefix("192.0.2.7/24"));  // another program's
  netlink::change(kernel, netlink::AddRoute{{.destination = prefix("198.51.100.0/24"),
                                             .gateway = ip("192.0.2.1"),
                                             .link = eth0,
                                             .protocol = RTPROT_BOOT}});
  Wanted nothing;
  EXPECT_STREQ(text(plan(nothing, observeNow(kernel))).cStr(),
               "delete route 0.0.0.0/0 via 10.5.0.1 link 2 metric 10\n"
               "delete address 10.5.0.2/24 of link 2\n");
  settle(nothing, kernel);
  EXPECT_TRUE(has(kernel, "192.0.2.7/24"));
  EXPECT_EQ(count(kernel, "198.51.100.0/24", "192.0.2.1"), 1u);
  EXPECT_FALSE(has(kernel, "10.5.0.2/24"));
}

// Catches: deleting and adding a route instead of replacing it, with a moment without a route.
TEST(Plan, ANewGatewayReplacesTheRouteInOneStep) {
  TestKernel kernel;
  kernel.plug("eth0");
  settle(ordinary(), kernel);
  auto wanted = ordinary();
  wanted.routes[0].gateway = ip("10.5.0.254");
  EXPECT_STREQ(text(plan(wanted, observeNow(kernel))).cStr(),
               "replace route 0.0.0.0/0 via 10.5.0.254 link 2 metric 10\n");
  settle(wanted, kernel);
  EXPECT_EQ(count(kernel, "0.0.0.0/0", "10.5.0.254"), 1u);
  EXPECT_EQ(count(kernel, "0.0.0.0/0", "10.5.0.1"), 0u);
}

// Catches: replacing another program's route because it has the same destination and metric.
TEST(Plan, AForeignRouteInThePlaceIsAProblem) {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0");
  auto wanted = ordinary();
  wanted.routes.clear();
  settle(wanted, kernel);
  netlink::change(kernel, netlink::AddRoute{{.destination = Prefix::all(AF_INET),
                                             .gateway = ip("10.5.0.77"),
                                             .link = eth0,
                                             .metric = 10,
                                             .protocol = RTPROT_STATIC}});
  EXPECT_STREQ(text(plan(ordinary(), observeNow(kernel))).cStr(),
               "! route 0.0.0.0/0 via 10.5.0.1 on eth0: metric 10 is used by another route, on "
               "eth0; set another metric\n");
}

// Catches: an exact match by another program that is added again, or later taken for networkd's
// own.
TEST(Plan, WhatIsThereAlreadyIsLeftAndNeverRemoved) {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0");
  netlink::setUp(kernel, 1);
  netlink::setUp(kernel, eth0);
  netlink::addAddress(kernel, eth0, prefix("10.5.0.2/24"));
  netlink::change(kernel, netlink::AddRoute{{.destination = Prefix::all(AF_INET),
                                             .gateway = ip("10.5.0.1"),
                                             .link = eth0,
                                             .metric = 10,
                                             .protocol = RTPROT_BOOT}});
  EXPECT_STREQ(text(plan(ordinary(), observeNow(kernel))).cStr(), "");
  EXPECT_EQ(plan(ordinary(), observeNow(kernel)).applied, 3u);
  EXPECT_STREQ(text(plan({}, observeNow(kernel))).cStr(), "");
}

struct ProblemRow {
  kj::StringPtr what;
  kj::Function<void(Wanted&)> spoil;
  kj::StringPtr problem;
};

// Catches: a bad spec that stops the good ones; messages that do not name the valid values.
TEST(Plan, ABadSpecIsAProblemAndTheRestGoesOn) {
  ProblemRow rows[] = {
      {"unknown link", [](Wanted& w) { w.addresses.add(wantedAddress("lo0", "192.0.2.1/24")); },
       "address 192.0.2.1/24 on lo0: unknown link \"lo0\"; known links: lo, eth0, eth1"},
      {"route on a link that is down",
       [](Wanted& w) { w.routes.add(route("eth1", "192.0.2.0/24", "")); },
       "route 192.0.2.0/24 on eth1: the link is down, and no LinkSpec sets it up"},
      {"route to nowhere",
       [](Wanted& w) { w.routes.add(route("", "192.0.2.0/24", "203.0.113.1")); },
       "route 192.0.2.0/24 via 203.0.113.1 on no link: set its link, or give the link an address "
       "whose prefix contains the gateway"},
      {"loopback down", [](Wanted& w) { w.links.add(wantedLink("lo", false)); },
       "link lo: loopback stays up"},
  };
  for (auto& row : rows) {
    TestKernel kernel;
    kernel.plug("eth0");
    kernel.plug("eth1");
    auto wanted = ordinary();
    row.spoil(wanted);
    auto todo = plan(wanted, observeNow(kernel));
    ASSERT_EQ(todo.problems.size(), 1u) << row.what.cStr();
    EXPECT_STREQ(todo.problems[0].cStr(), row.problem.cStr());
    EXPECT_EQ(todo.steps.size(), 4u) << text(todo).cStr();
  }
}

// Catches: a route without a link that ends up on the wrong one.
TEST(Plan, ARouteWithoutLinkGoesWhereItsGatewayIs) {
  TestKernel kernel;
  kernel.plug("eth0");
  kernel.plug("eth1");
  Wanted wanted;
  for (auto name : {"eth0", "eth1"}) wanted.links.add(wantedLink(name));
  wanted.addresses.add(wantedAddress("eth0", "10.5.0.2/24"));
  wanted.addresses.add(wantedAddress("eth1", "10.6.0.2/24"));
  wanted.routes.add(route("", "0.0.0.0/0", "10.6.0.1"));
  settle(wanted, kernel);
  for (auto& r : kernel.routes()) {
    if (r.destination.length == 0) EXPECT_EQ(r.link, 3u);
  }
  EXPECT_EQ(count(kernel, "0.0.0.0/0", "10.6.0.1"), 1u);
}

// Catches: comparing the metric 0 of a spec with the kernel's value for IPv6, 1024: the route would
// be added again for ever.
TEST(Plan, Ipv6RoutesSettleWithTheDefaultMetric) {
  TestKernel kernel;
  kernel.plug("eth0");
  auto wanted = ordinary();
  wanted.addresses.add(wantedAddress("eth0", "fd00::2/64"));
  wanted.routes.add(route("eth0", "::/0", "fd00::1"));
  EXPECT_EQ(settle(wanted, kernel), 1u);
  EXPECT_STREQ(text(plan(wanted, observeNow(kernel))).cStr(), "");
}

// Catches: trying ::1 for ever on a machine without IPv6.
TEST(Plan, WithoutIpv6NothingOfItIsTried) {
  TestKernel kernel(false);
  kernel.plug("eth0");
  auto wanted = ordinary();
  wanted.addresses.add(wantedAddress("eth0", "fd00::2/64"));
  for (auto& failure : kernel.apply(KJ_MAP(step, plan(wanted, observeNow(kernel, false)).steps) {
         return kj::mv(step.change);
       })) {
    EXPECT_TRUE(failure == nullptr);
  }
  EXPECT_STREQ(text(plan(wanted, observeNow(kernel, false))).cStr(),
               "! address fd00::2/64 on eth0: IPv6 is disabled on this node\n");
}

// Catches: reporting as working an address that the kernel gave up because another machine has it.
TEST(Plan, ADuplicatedAddressIsAProblem) {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0");
  Wanted wanted;
  wanted.links.add(wantedLink("eth0"));
  wanted.addresses.add(wantedAddress("eth0", "fd00::2/64"));
  netlink::setUp(kernel, 1);
  netlink::setUp(kernel, eth0);
  netlink::change(kernel, netlink::AddAddress{{.link = eth0,
                                               .prefix = prefix("fd00::2/64"),
                                               .flags = IFA_F_DADFAILED,
                                               .protocol = kMark}});
  auto todo = plan(wanted, observeNow(kernel));
  EXPECT_EQ(todo.applied, 1u);  // only the link
  EXPECT_STREQ(text(todo).cStr(),
               "! address fd00::2/64 on eth0: another host on this network has this address\n");
}

Wanted randomWanted(std::minstd_rand& random) {
  auto below = [&](unsigned n) { return unsigned(random() >> 8) % n; };
  Wanted wanted;
  for (unsigned i = 0; i < 3; ++i) {
    auto name = kj::str("eth", i);
    if (below(4) > 0)
      wanted.links.add(wantedLink(name, below(5) > 0, below(3) ? 0 : 1400 + below(3) * 50));
    for (unsigned n = below(4); n > 0; --n) {
      wanted.addresses.add(
          wantedAddress(name, kj::str("10.", i, ".", below(2), ".", 1 + below(3), "/24")));
      if (below(3) == 0) {
        wanted.addresses.add(wantedAddress(name, kj::str("fd00:", i, "::", 1 + below(3), "/64")));
      }
    }
    for (unsigned n = below(3); n > 0; --n) {
      bool onLink = below(3) == 0;
      wanted.routes.add(route(name, kj::str("172.", 16 + below(2), ".0.0/16"),
                              onLink ? kj::String() : kj::str("10.", i, ".", below(2), ".254"),
                              below(2) * 10));
    }
  }
  return wanted;
}

kj::String foreign(TestKernel& kernel) {
  kj::Vector<kj::String> lines;
  for (auto& a : kernel.addresses()) {
    if (a.protocol == 0) lines.add(kj::str(a.link, " ", a.prefix));
  }
  return kj::strArray(lines, "\n");
}

// Catches: pairs of states between which the planner alternates, or that need a step it does not
// know; and, over all of them, changes of foreign addresses. The model kernel behaves as Linux
// does.
TEST(Plan, AnyStateBecomesAnyOtherAndThenStays) {
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::minstd_rand random(seed);
    random.discard(4);
    TestKernel kernel;
    for (auto name : {"eth0", "eth1", "eth2"}) kernel.plug(name);
    netlink::addAddress(kernel, 3, prefix("192.0.2.9/24"));
    // From nothing to the first, to the second, and back. Routes with unreachable gateways fail in
    // the kernel, and then the plan has only these left.
    auto first = randomWanted(random), second = randomWanted(random);
    auto before = foreign(kernel);
    for (auto wanted : {&first, &second, &first}) {
      kj::Vector<kj::String> last;
      for (unsigned round = 0; round < 8; ++round) {
        auto todo = plan(*wanted, observeNow(kernel));
        last.clear();
        if (todo.steps.size() == 0) break;
        auto changes = KJ_MAP(step, todo.steps) {
          return kj::mv(step.change);
        };
        bool progress = false;
        for (auto& failure : kernel.apply(changes)) {
          KJ_IF_MAYBE (f, failure)
            last.add(kj::mv(f->message));
          else
            progress = true;
        }
        if (!progress) break;
      }
      // The kernel refused each remaining step for a reason outside of the plan.
      EXPECT_EQ(plan(*wanted, observeNow(kernel)).steps.size(), last.size())
          << kj::strArray(last, "\n").cStr() << "\n"
          << text(plan(*wanted, observeNow(kernel))).cStr();
      for (auto& message : last) {
        EXPECT_TRUE(message.startsWith("add route") || message.startsWith("replace route"))
            << message.cStr();
      }
      EXPECT_STREQ(foreign(kernel).cStr(), before.cStr());
      if (::testing::Test::HasFailure()) return;
    }
    settle({}, kernel);
    for (auto& a : kernel.addresses()) EXPECT_NE(a.protocol, kMark);
    for (auto& r : kernel.routes()) EXPECT_NE(r.protocol, kMark);
  }
}

Observed observed(std::initializer_list<kj::StringPtr> names) {
  Observed result;
  for (auto name : names) {
    netlink::Link link;
    link.index = result.links.size() + 1;
    link.name = kj::str(name);
    result.links.add(kj::mv(link));
  }
  return result;
}

// Catches: a number that is wrongly taken for a link; a link that is shown by its number; a link's
// name that is taken for a word of the sentence.
TEST(ChangeWords, LinksHaveTheirNames) {
  auto there = observed({"lo", "eth0", "link", "bond0"});
  netlink::BondOptions options;
  options[netlink::BondOption::kMode] = 1;
  options[netlink::BondOption::kMiimon] = 2;
  options[netlink::BondOption::kPrimary] = 2;
  netlink::Route route{.destination = prefix("10.2.0.0/16"), .link = 2, .metric = 2};
  struct {
    netlink::Change change;
    kj::StringPtr text, link;
  } rows[] = {
      {netlink::AddAddress{{.link = 2, .prefix = prefix("10.0.0.2/24")}},
       "add address 10.0.0.2/24 to link eth0", "eth0"},
      {netlink::AddRoute{route}, "add route 10.2.0.0/16 link eth0 metric 2", "eth0"},
      {netlink::SetLink{.index = 3, .mtu = 2u, .master = 4u}, "set link link mtu 2 master bond0",
       "link"},
      {netlink::SetLink{.index = 4, .hardwareAddress = {{2, 0, 0, 0, 0, 7}}},
       "set link bond0 address 02:00:00:00:00:07", "bond0"},
      {netlink::AddLink{kj::str("v"), netlink::Vlan{.parent = 3, .id = 2}},
       "add link v, vlan 2 on link link", "v"},
      {netlink::SetBond{4, options}, "set bond bond0: mode active-backup, miimon 2, primary eth0",
       "bond0"},
      {netlink::DeleteLink{9}, "delete link 9", ""},
      {netlink::RenameLink{2, kj::str("enp0s3")}, "rename link eth0 to enp0s3", "eth0"},
  };
  for (auto& row : rows) {
    EXPECT_STREQ(describe(row.change, there).cStr(), row.text.cStr());
    EXPECT_STREQ(linkOf(row.change, there).cStr(), row.link.cStr());
  }
}

}  // namespace
}  // namespace talos::networkd
