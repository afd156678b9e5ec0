// Plans that are only shown, and changes in words.
#include "networkd/plan/plan-preview.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <string.h>

#include "common/base/resource.h"
#include "common/netlink/test-kernel.h"
#include "networkd/plan/network-plan.h"
#include "networkd/plan/test-random-network.h"
#include "rpc/local.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {
namespace {

using netlink::TestKernel;

constexpr int64_t kPreviewedAt = 1000000000;

std::string previewed(const Wanted& wanted, TestKernel& kernel) {
  auto result = preview(wanted, observe(kernel, true, kPreviewedAt));
  for (auto& problem : result.problems) result.steps.add(kj::str("! ", problem));
  return kj::strArray(result.steps, "\n").cStr();
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

// Catches: a preview that differs from the executed changes, over all kinds of networks.
TEST(Preview, IsWhatIsDone) {
  RandomNetwork random(7);
  for (unsigned i = 0; i < 200; ++i) {
    TestKernel kernel;
    for (auto name : {"eth0", "eth1", "eth2", "eth3"}) kernel.plug(name);
    for (unsigned twice = 0; twice < 2; ++twice) {
      auto wanted = random.make(4);
      auto foreseen = preview(wanted, observe(kernel, true, kPreviewedAt));
      kj::Vector<kj::String> done;
      for (unsigned round = 0; round < 8; ++round) {
        auto observed = observe(kernel, true, kPreviewedAt);
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
  auto observed = observe(kernel, true, kPreviewedAt);
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
  auto list = message.initRoot<rpc::Networkd::PlanParams>().initSpecs(5);
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
  auto wanted = wantedOf(list.asReader());
  EXPECT_EQ(wanted.links.size(), 1u);
  EXPECT_EQ(wanted.addresses.size(), 1u);
  EXPECT_EQ(wanted.routes.size(), 1u);
  EXPECT_EQ(wanted.problems.size(), 1u);
}

}  // namespace
}  // namespace talos::networkd
