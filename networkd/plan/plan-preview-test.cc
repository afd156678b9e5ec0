// Plans that are only shown, and changes in words.
#include "networkd/plan/plan-preview.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string.h>

#include "common/base/resource.h"
#include "common/netlink/model/test-kernel.h"
#include "networkd/plan/network-plan.h"
#include "networkd/plan/test-random-network.h"
#include "rpc/local.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {
namespace {

using netlink::TestKernel;

constexpr int64_t kPreviewedAt = 1000000000;

std::string previewed(const Wanted& wanted, const Observed& observed) {
  auto result = preview(wanted, observed);
  for (auto& problem : result.problems) result.steps.add(kj::str("! ", problem));
  return kj::strArray(result.steps, "\n").cStr();
}
std::string previewed(const Wanted& wanted, TestKernel& kernel) {
  return previewed(wanted, observe(kernel, true, kPreviewedAt, RandomNetwork::tables()));
}

// --- observed networks without a kernel

netlink::Link& seeLink(Observed& observed, kj::StringPtr name, kj::StringPtr kind = "") {
  netlink::Link link;
  link.index = observed.links.size() + 1;
  link.name = kj::str(name);
  link.kind = kj::str(kind);
  link.type = ARPHRD_ETHER;
  link.flags = IFF_UP;
  link.mtu = 1500;
  link.hardwareAddress = kj::heapArray<kj::byte>({2, 0, 0, 0, 0, kj::byte(link.index)});
  link.group = kind.size() > 0 ? kMark : 0;
  return observed.links.add(kj::mv(link));
}
// Adds an address with the route of its network.
void seeAddress(Observed& observed, unsigned link, kj::StringPtr text, uint8_t protocol = kMark) {
  auto prefix = KJ_ASSERT_NONNULL(Prefix::parse(text));
  observed.addresses.add(netlink::Address{.link = link, .prefix = prefix, .protocol = protocol});
  if (prefix.length == prefix.address.bits()) return;
  bool v4 = prefix.address.family() == AF_INET;
  netlink::Route route{.destination = prefix.masked(),
                       .link = link,
                       .metric = v4 ? 0u : 256u,
                       .protocol = RTPROT_KERNEL};
  if (v4) route.source = prefix.address;
  observed.routes.add(route);
}
void seeRoute(Observed& observed, unsigned link, kj::StringPtr destination, kj::StringPtr gateway,
              kj::Maybe<Ip> source = nullptr) {
  observed.routes.add(netlink::Route{.destination = KJ_ASSERT_NONNULL(Prefix::parse(destination)),
                                     .gateway = Ip::require(gateway),
                                     .link = link,
                                     .protocol = kMark,
                                     .source = source});
}
// Loopback, and the cards eth0 (2) and eth1 (3): all up, without addresses of a config.
Observed seeTwoCards() {
  Observed observed;
  auto& lo = seeLink(observed, "lo");
  lo.type = ARPHRD_LOOPBACK;
  lo.flags |= IFF_LOOPBACK;
  for (auto address : {"127.0.0.1/8", "::1/128"}) {
    observed.addresses.add(
        netlink::Address{.link = 1, .prefix = KJ_ASSERT_NONNULL(Prefix::parse(address))});
  }
  seeLink(observed, "eth0");
  seeLink(observed, "eth1");
  return observed;
}

WantedLink& wantLink(Wanted& wanted, kj::StringPtr name, kj::StringPtr kind = "") {
  return wanted.links.add(WantedLink{.name = kj::str(name), .kind = kj::str(kind)});
}
void wantAddress(Wanted& wanted, kj::StringPtr link, kj::StringPtr text) {
  wanted.addresses.add(
      WantedAddress{.link = kj::str(link), .prefix = KJ_ASSERT_NONNULL(Prefix::parse(text))});
}
WantedRoute& wantRoute(Wanted& wanted, kj::StringPtr link, kj::StringPtr destination,
                       kj::StringPtr gateway) {
  return wanted.routes.add(WantedRoute{.link = kj::str(link),
                                       .destination = KJ_ASSERT_NONNULL(Prefix::parse(destination)),
                                       .gateway = Ip::require(gateway)});
}

struct PreviewRow {
  const char* subject;
  void (*fill)(Wanted& wanted, Observed& observed);
  const char* steps;
};
const PreviewRow kPreviews[] = {
    {"the network is as wanted",
     [](Wanted& wanted, Observed& observed) {
       seeAddress(observed, 2, "10.0.0.2/24");
       wantLink(wanted, "eth0");
       wantAddress(wanted, "eth0", "10.0.0.2/24");
     },
     ""},
    {"loopback gets its addresses by itself",
     [](Wanted& wanted, Observed& observed) {
       observed.links[0].flags &= ~IFF_UP;
       observed.addresses.clear();
     },
     "set link lo up"},
    {"a route is lost with the last address of its link",
     [](Wanted& wanted, Observed& observed) {
       seeAddress(observed, 2, "10.0.0.2/24");
       seeRoute(observed, 2, "0.0.0.0/0", "10.0.0.1");
       wantLink(wanted, "eth0");
       wantAddress(wanted, "eth0", "10.0.0.5/24");
       wantRoute(wanted, "eth0", "0.0.0.0/0", "10.0.0.1");
     },
     "delete address 10.0.0.2/24 of link eth0\n"
     "add address 10.0.0.5/24 to link eth0\n"
     "add route 0.0.0.0/0 via 10.0.0.1 link eth0 metric 0"},
    {"a route is lost with its source, without which Linux refuses the route",
     [](Wanted& wanted, Observed& observed) {
       seeAddress(observed, 2, "10.0.0.2/24");
       seeAddress(observed, 2, "10.1.0.2/24");
       seeRoute(observed, 2, "172.16.0.0/16", "10.1.0.1", Ip::require("10.0.0.2"));
       wantLink(wanted, "eth0");
       wantAddress(wanted, "eth0", "10.1.0.2/24");
       wantRoute(wanted, "eth0", "172.16.0.0/16", "10.1.0.1").source = Ip::require("10.0.0.2");
     },
     "delete address 10.0.0.2/24 of link eth0\n"
     "add route 172.16.0.0/16 via 10.1.0.1 link eth0 metric 0 source 10.0.0.2\n"
     "! add route 172.16.0.0/16 via 10.1.0.1 link eth0 metric 0 source 10.0.0.2: "
     "Invalid prefsrc address (Invalid argument)"},
    {"a bond that goes down for an option loses routes and IPv6 addresses",
     [](Wanted& wanted, Observed& observed) {
       auto& bond = wantLink(wanted, "bond0", "bond").bond;
       bond[netlink::BondOption::kMode] = uint32_t(netlink::BondMode::kLacp);
       seeLink(observed, "bond0", "bond").bond = netlink::effectiveBond(bond, [](auto, auto) {});
       bond[netlink::BondOption::kLacpRate] = 1;
       for (auto address : {"10.0.0.2/24", "fd00::2/64"}) {
         seeAddress(observed, 4, address);
         wantAddress(wanted, "bond0", address);
       }
       seeRoute(observed, 4, "0.0.0.0/0", "10.0.0.1");
       wantRoute(wanted, "bond0", "0.0.0.0/0", "10.0.0.1");
     },
     "set link bond0 down\n"
     "set bond bond0: lacpRate 1\n"
     "set link bond0 up\n"
     "add address fd00::2/64 to link bond0\n"
     "add route 0.0.0.0/0 via 10.0.0.1 link bond0 metric 0"},
    {"a bond that is removed takes its VLAN along and closes its member",
     [](Wanted& wanted, Observed& observed) {
       seeLink(observed, "bond0", "bond");
       auto& vlan = seeLink(observed, "bond0.5", "vlan");
       vlan.parent = 4;
       vlan.vlan = netlink::VlanTag{5};
       observed.links[1].master = 4;
       wantLink(wanted, "eth0");
       wantAddress(wanted, "eth0", "10.0.0.2/24");
     },
     "delete link bond0.5\n"
     "delete link bond0\n"
     "set link eth0 up\n"
     "add address 10.0.0.2/24 to link eth0"},
    {"a link that goes up has an index of more than 16 bits",
     [](Wanted& wanted, Observed& observed) {
       observed.links[2].index = 70000;
       observed.links[2].flags &= ~IFF_UP;
       wantLink(wanted, "eth1");
     },
     "set link eth1 up"},
    {"a new bridge follows the MTU of its ports",
     [](Wanted& wanted, Observed& observed) {
       observed.links[2].mtu = 1400;
       wantLink(wanted, "br0", "bridge");
       for (auto port : {"eth0", "eth1"}) wantLink(wanted, port).master = kj::str("br0");
       wantAddress(wanted, "br0", "10.0.0.2/24");
     },
     "add link br0, bridge\n"
     "set link br0 address 02:00:00:00:00:02\n"
     "set link eth0 master br0\n"
     "set link eth1 master br0\n"
     "set link br0 up\n"
     "add address 10.0.0.2/24 to link br0"},
    {"a new tunnel gets its key with the second plan",
     [](Wanted& wanted, Observed& observed) {
       auto& tunnel = wantLink(wanted, "wg0", "wireguard").wireguard;
       tunnel.privateKey = RandomNetwork::secret(1);
       tunnel.listenPort = 51820;
     },
     "add link wg0, wireguard\n"
     "set WireGuard of link wg0: private key, port 51820\n"
     "set link wg0 up"},
    {"a VLAN with a larger MTU than its link has that of the link",
     [](Wanted& wanted, Observed& observed) {
       wantLink(wanted, "eth0");
       auto& vlan = wantLink(wanted, "eth0.5", "vlan");
       vlan.parent = kj::str("eth0");
       vlan.vlan.id = 5;
       vlan.mtu = 9000;
     },
     "add link eth0.5, vlan 5 on link eth0\n"
     "set link eth0.5 up\n"
     "! link eth0.5: the MTU 9000 is more than that of its parent eth0, so it has 1500; set the "
     "MTU "
     "of eth0, too"},
    {"another program has the IPv6 address with another prefix length",
     [](Wanted& wanted, Observed& observed) {
       seeAddress(observed, 2, "fd00::2/128", 0);
       wantLink(wanted, "eth0");
       wantAddress(wanted, "eth0", "fd00::2/64");
     },
     "add address fd00::2/64 to link eth0\n"
     "! add address fd00::2/64 to link eth0: File exists"},
};

// Catches: a reaction of Linux to a step that the next plan of a preview does not know, and a step
// that Linux would refuse, shown without its problem.
TEST(Preview, FollowsFromThePlansAndTheObservedNetwork) {
  for (auto& row : kPreviews) {
    SCOPED_TRACE(row.subject);
    Wanted wanted;
    auto observed = seeTwoCards();
    row.fill(wanted, observed);
    EXPECT_EQ(previewed(wanted, observed), row.steps);
  }
}

// Catches: a preview that ends after the first round of the real plan; links without names; a
// preview that changes something.
TEST(Preview, ShowsWhatStandsOnLinksThatAreYetToBeMade) {
  TestKernel kernel;
  auto eth0 = kernel.plug("eth0");
  kernel.plug("eth1");
  netlink::setUp(kernel, 1);
  netlink::setUp(kernel, eth0);
  kernel.takeChangeCount();
  Wanted wanted;
  auto& bond = wanted.links.add(WantedLink{.name = kj::str("bond0"), .kind = kj::str("bond")});
  bond.bond[netlink::BondOption::kMode] = uint32_t(netlink::BondMode::kActiveBackup);
  bond.primary = kj::str("eth1");
  for (auto name : {"eth0", "eth1"}) {
    wanted.links.add(WantedLink{.name = kj::str(name), .master = kj::str("bond0")});
  }
  auto& vlan = wanted.links.add(
      WantedLink{.name = kj::str("bond0.5"), .kind = kj::str("vlan"), .parent = kj::str("bond0")});
  vlan.vlan.id = 5;
  wanted.addresses.add(WantedAddress{.link = kj::str("bond0.5"),
                                     .prefix = KJ_ASSERT_NONNULL(Prefix::parse("10.0.0.2/24"))});
  wanted.routes.add(WantedRoute{.destination = Prefix::all(AF_INET),
                                .gateway = KJ_ASSERT_NONNULL(Ip::parse("10.0.0.1"))});
  EXPECT_EQ(previewed(wanted, kernel),
            "add link bond0, bond with mode active-backup\n"
            "add link bond0.5, vlan 5 on link bond0\n"
            "set link eth0 down\n"
            "set link eth0 master bond0\n"
            "set link eth1 master bond0\n"
            "set bond bond0: primary eth1\n"
            "set link bond0 up\n"
            "add address 10.0.0.2/24 to link bond0.5\n"
            "add route 0.0.0.0/0 via 10.0.0.1 link bond0.5 metric 0");
  EXPECT_EQ(kernel.takeChangeCount(), 0u);
}

// Bonds and bridges remember MTUs, and a bond its primary that is not a member: neither is visible
// from outside, so no preview can foresee them.
std::string foreseeable(const kj::Vector<kj::String>& steps) {
  std::string text;
  for (auto& step : steps) {
    bool remembered =
        strstr(step.cStr(), " mtu ") != nullptr || strstr(step.cStr(), ": primary ") != nullptr;
    if (!remembered) text += std::string(step.cStr()) + "\n";
  }
  return text;
}

// Catches: a preview that differs from the changes that are made on the model kernel, which shares
// no code with the preview, over all kinds of networks.
TEST(Preview, IsWhatIsDone) {
  RandomNetwork random(7);
  for (unsigned i = 0; i < 200; ++i) {
    TestKernel kernel;
    for (auto name : {"eth0", "eth1", "eth2", "eth3"}) kernel.plug(name);
    for (unsigned twice = 0; twice < 2; ++twice) {
      auto wanted = random.make(4);
      auto foreseen = preview(wanted, observe(kernel, true, kPreviewedAt, RandomNetwork::tables()));
      kj::Vector<kj::String> done;
      for (unsigned round = 0; round < 8; ++round) {
        auto observed = observe(kernel, true, kPreviewedAt, RandomNetwork::tables());
        auto todo = plan(wanted, observed);
        if (todo.steps.size() == 0) break;
        for (auto& step : todo.steps) {
          done.add(describe(step.change, observed));
          kernel.apply(kj::arrayPtr(&step.change, 1));
        }
      }
      ASSERT_EQ(foreseeable(foreseen.steps), foreseeable(done));
    }
  }
}

// Catches: a preview of an impossible step that never ends, or hides it.
TEST(Preview, WhatCannotBeIsAProblem) {
  TestKernel kernel;
  kernel.plug("eth0");
  Wanted wanted;
  wanted.addresses.add(WantedAddress{.link = kj::str("eth9"),
                                     .prefix = KJ_ASSERT_NONNULL(Prefix::parse("10.0.0.2/24"))});
  wanted.problems.add(kj::str("AddressSpecs x: no"));
  EXPECT_EQ(previewed(wanted, kernel),
            "set link lo up\n"
            "! address 10.0.0.2/24 on eth9: unknown link \"eth9\"; known links: lo, eth0\n"
            "! AddressSpecs x: no");
}

// Catches: an MTU that would be restored and is missing from the preview.
TEST(Preview, KnowsWhatMtuHardwareHad) {
  TestKernel kernel;
  auto eth0 = kernel.plug("eth0");
  netlink::setUp(kernel, 1);
  netlink::change(kernel, netlink::SetLink{.index = eth0, .mtu = 1400u});
  auto observed = observe(kernel, true, kPreviewedAt, RandomNetwork::tables());
  observed.firstMtus = {{eth0, 1500}};
  auto result = preview(Wanted(), observed);
  ASSERT_EQ(result.steps.size(), 1u);
  EXPECT_STREQ(result.steps[0].cStr(), "set link eth0 mtu 1500");
}

// Catches: a step that the kernel would refuse, shown as if it would succeed.
TEST(Preview, WhatTheKernelWouldRefuseIsAProblem) {
  TestKernel kernel;
  auto eth0 = kernel.plug("eth0");
  netlink::setUp(kernel, 1);
  netlink::setUp(kernel, eth0);
  Wanted wanted;
  wanted.links.add(WantedLink{.name = kj::str("eth0")});
  wanted.routes.add(WantedRoute{.link = kj::str("eth0"),
                                .destination = Prefix::all(AF_INET),
                                .gateway = KJ_ASSERT_NONNULL(Ip::parse("192.0.2.1"))});
  EXPECT_EQ(previewed(wanted, kernel),
            "add route 0.0.0.0/0 via 192.0.2.1 link eth0 metric 0\n"
            "! add route 0.0.0.0/0 via 192.0.2.1 link eth0 metric 0: "
            "Nexthop has invalid gateway (Network is unreachable)");
  // The address that another step adds makes the route possible.
  wanted.addresses.add(WantedAddress{.link = kj::str("eth0"),
                                     .prefix = KJ_ASSERT_NONNULL(Prefix::parse("192.0.2.2/24"))});
  EXPECT_EQ(previewed(wanted, kernel),
            "add address 192.0.2.2/24 to link eth0\n"
            "add route 0.0.0.0/0 via 192.0.2.1 link eth0 metric 0");
}

// Catches: a type of resource that is not read, or a resource that is left out.
TEST(Preview, ReadsResources) {
  capnp::MallocMessageBuilder message;
  auto list = message.initRoot<rpc::Networkd::PlanParams>().initSpecs(6);
  auto fill = [&]<typename Spec>(Spec*, unsigned i, kj::StringPtr id) {
    list[i].initMetadata().setType(typeName<Spec>());
    list[i].getMetadata().setId(id);
    return list[i].getSpec().initAs<Spec>();
  };
  auto address = fill((rpc::AddressSpecSpec*)nullptr, 0, "eth0/10.0.0.2/24");
  address.setAddress("10.0.0.2/24");
  address.setLinkName("eth0");
  auto route = fill((rpc::RouteSpecSpec*)nullptr, 1, "r");
  route.setGateway("10.0.0.1");
  route.setLinkName("eth0");
  route.setFamily("inet4");
  auto link = fill((rpc::LinkSpecSpec*)nullptr, 2, "eth0");
  link.setName("eth0");
  link.setUp(true);
  fill((rpc::HostnameSpecSpec*)nullptr, 3, "hostname");
  fill((rpc::AddressSpecSpec*)nullptr, 4, "bad").setAddress("x");
  fill((rpc::RoutingRuleSpecSpec*)nullptr, 5, "inet4/1500").setTable("77");
  auto wanted = wantedOf(list.asReader());
  EXPECT_EQ(wanted.links.size(), 1u);
  EXPECT_EQ(wanted.addresses.size(), 1u);
  EXPECT_EQ(wanted.routes.size(), 1u);
  EXPECT_EQ(wanted.rules.size(), 1u);
  EXPECT_EQ(wanted.problems.size(), 1u);
}

}  // namespace
}  // namespace talos::networkd
