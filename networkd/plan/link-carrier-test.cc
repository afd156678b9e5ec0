// Links that are reported to have no carrier, on the model kernel.
#include "networkd/plan/link-carrier.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/netlink/model/test-kernel.h"
#include "common/netlink/test-netlink.h"

namespace talos::networkd {
namespace {

using netlink::TestKernel;

constexpr auto kWaits = "; waiting for carrier";

// A kernel on which a config is applied, and the reported losses.
struct CarrierBench {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0"), eth1 = kernel.plug("eth1");
  Wanted wanted;
  Carriers carriers;
  kj::TimePoint now = kj::origin<kj::TimePoint>();

  WantedLink& want(kj::StringPtr name, kj::StringPtr kind = "") {
    auto& link = wanted.links.add();
    link.name = kj::str(name);
    link.kind = kj::str(kind);
    link.version = 1;
    link.layer = kj::str("configuration");
    return link;
  }
  void member(kj::StringPtr name, kj::StringPtr master) { want(name).master = kj::str(master); }
  Observed look() {
    auto observed = observe(kernel, true, 0);
    carriers.see(observed, now);
    return observed;
  }
  void apply() {
    for (unsigned round = 0; round < 8; ++round) {
      auto todo = plan(wanted, look());
      if (todo.steps.size() == 0) return;
      kj::Vector<netlink::Change> changes;
      for (auto& step : todo.steps) changes.add(kj::mv(step.change));
      for (auto& answer : kernel.apply(changes)) KJ_ASSERT(answer == nullptr, "refused");
    }
  }
  kj::String losses(kj::Duration later = 1 * kj::MINUTES) {
    now += later;
    auto observed = look();
    kj::Vector<kj::String> texts;
    for (auto& loss : carriers.lost(wanted, observed, now)) {
      KJ_ASSERT(loss.what.startsWith(kj::str(loss.link, ": no carrier: ")), loss.what);
      KJ_ASSERT(loss.what.endsWith(kWaits), loss.what);
      size_t from = loss.link.size() + 14, to = loss.what.size() - kj::StringPtr(kWaits).size();
      texts.add(kj::str(loss.link, ": ", loss.what.slice(from, to)));
    }
    return kj::strArray(texts, "\n");
  }
};

constexpr auto kNoCable = "no cable, or the other end is down";

TEST(Carriers, HardwareThatIsWantedUp) {
  CarrierBench bench;
  bench.want("eth0");
  bench.want("eth1").up = false;
  bench.apply();
  EXPECT_EQ(bench.losses(), "");
  bench.kernel.setCarrier(bench.eth1, false);
  EXPECT_EQ(bench.losses(), "") << "it is wanted down";
  netlink::setUp(bench.kernel, bench.eth1);
  bench.kernel.setCarrier(bench.eth1, false);
  EXPECT_EQ(bench.losses(), "") << "also when somebody takes it up";
  bench.kernel.setCarrier(bench.eth0, false);
  EXPECT_EQ(bench.losses(0 * kj::SECONDS), kj::str("eth0: ", kNoCable)) << "at once";
  bench.kernel.setCarrier(bench.eth0, true);
  EXPECT_EQ(bench.losses(), "");
  netlink::setUp(bench.kernel, bench.eth0, false);
  bench.kernel.setCarrier(bench.eth0, false);
  EXPECT_EQ(bench.losses(), "") << "it is down: that is another problem";
  bench.kernel.unplug(bench.eth0);
  EXPECT_EQ(bench.losses(), "") << "that is another problem";
}

// Catches: false alarms. No config wants the second card: `ignore`, or not named.
TEST(Carriers, DoesNotReportLinksThatNeedNoCarrier) {
  CarrierBench bench;
  bench.want("dummy0", "dummy");
  bench.want("wg0", "wireguard").wireguard.privateKey =
      netlink::WireguardSecret::parse("YK2tyGl8Ff+T5sSSqYVVcDrEwxbbo8nMC2MJRaZv1Uc=");
  bench.want("br0", "bridge");
  bench.want("lo");
  bench.apply();
  netlink::setUp(bench.kernel, bench.eth1);
  auto observed = bench.look();
  for (auto& link : observed.links) bench.kernel.setCarrier(link.index, false);
  EXPECT_EQ(bench.losses(), "");
  // Ports of other programs, such as those of containers, do not belong to the config.
  netlink::setMaster(bench.kernel, bench.eth1, netlink::indexOf(bench.kernel, "br0"));
  EXPECT_EQ(bench.losses(), "");
  // The hardware has the name of a link that is to be created.
  bench.want("eth1", "dummy");
  EXPECT_EQ(bench.losses(), "");
}

TEST(Carriers, BondsBridgesAndVlansSayWhatTheyStandOn) {
  CarrierBench bench;
  bench.member("eth0", "bond0");
  bench.member("eth1", "bond0");
  bench.want("bond0", "bond");
  auto& vlan = bench.want("bond0.5", "vlan");
  vlan.parent = kj::str("bond0");
  vlan.vlan.id = 5;
  bench.apply();
  EXPECT_EQ(bench.losses(), "");
  bench.kernel.setCarrier(bench.eth0, false);
  EXPECT_EQ(bench.losses(), kj::str("eth0: ", kNoCable)) << "the bond goes on";
  bench.kernel.setCarrier(bench.eth0, true);
  bench.kernel.setCarrier(bench.eth1, false);
  bench.kernel.setCarrier(netlink::indexOf(bench.kernel, "bond0"), false);
  EXPECT_EQ(bench.losses(), kj::str("eth1: ", kNoCable,
                                    "\nbond0: none of its members is ready for traffic yet (eth0, "
                                    "eth1)\nbond0.5: the link bond0 below it has no carrier"));
  bench.kernel.setCarrier(bench.eth0, false);
  bench.kernel.setCarrier(bench.eth1, false);
  EXPECT_EQ(bench.losses(), kj::str("eth0: ", kNoCable, "\neth1: ", kNoCable,
                                    "\nbond0: none of its members has one (eth0, eth1)"
                                    "\nbond0.5: the link bond0 below it has no carrier"));
  bench.kernel.unplug(bench.eth0);
  netlink::setMaster(bench.kernel, bench.eth1, 0);
  netlink::setUp(bench.kernel, bench.eth1);
  bench.kernel.setCarrier(bench.eth1, true);
  constexpr auto kNobody =
      "bond0: none of its members exists (eth0, eth1)\n"
      "bond0.5: the link bond0 below it has no carrier";
  EXPECT_EQ(bench.losses(), kNobody) << "eth1 is, but in no bond";
  bench.kernel.unplug(bench.eth1);
  EXPECT_EQ(bench.losses(), kNobody);
  bench.wanted.links.truncate(0);
  bench.want("bond0", "bond");
  EXPECT_EQ(bench.losses(), "bond0: it has no member");

  CarrierBench bridged;
  bridged.member("eth0", "br0");
  bridged.want("br0", "bridge");
  bridged.apply();
  auto bridge = netlink::indexOf(bridged.kernel, "br0");
  bridged.kernel.setCarrier(bridge, false);
  EXPECT_EQ(bridged.losses(), "br0: none of its ports is ready for traffic yet (eth0)");
  bridged.kernel.setCarrier(bridged.eth0, false);
  EXPECT_EQ(bridged.losses(),
            kj::str("eth0: ", kNoCable, "\nbr0: none of its ports has one (eth0)"));
}

// Catches: an alarm for each unused port of a machine whose config names no card; no alarm for the
// only card of such a machine.
TEST(Carriers, ReportsACardThatNoConfigNamesOnlyWhenItWasUsed) {
  CarrierBench bench;
  bench.want("eth0").layer = kj::str("default");
  bench.want("eth1").layer = kj::str("default");
  bench.kernel.setCarrier(bench.eth1, false);
  bench.apply();
  EXPECT_EQ(bench.losses(), "");
  bench.kernel.setCarrier(bench.eth0, false);
  EXPECT_EQ(bench.losses(), kj::str("eth0: ", kNoCable)) << "it had one";
  // After a restart, the card's addresses show that it was used.
  bench.carriers = {};
  EXPECT_EQ(bench.losses(), "");
  auto expectLoss = [&](kj::StringPtr cause) {
    EXPECT_EQ(bench.losses(), kj::str("eth0: ", kNoCable)) << cause.cStr();
  };
  bench.wanted.addresses.add(WantedAddress{
      .link = kj::str("eth0"), .prefix = KJ_ASSERT_NONNULL(Prefix::parse("10.0.0.2/24"))});
  expectLoss("an address");
  bench.wanted.addresses.clear();
  bench.wanted.routes.add(
      WantedRoute{.link = kj::str("eth0"), .destination = Prefix::all(AF_INET)});
  expectLoss("a route");
  bench.wanted.routes.clear();
  bench.wanted.links[0].master = kj::str("bond0");
  expectLoss("a bond");
  bench.wanted.links[0].master = kj::String();
  EXPECT_EQ(bench.losses(), "");
  bench.want("eth0.5", "vlan").parent = kj::str("eth0");
  expectLoss("a VLAN");
}

// Catches: a grace period that starts again with each look, or that a running link gets.
TEST(Carriers, WaitsForACarrierOnlyOfLinksThatJustWentUp) {
  CarrierBench bench;
  bench.want("eth0");
  bench.kernel.setCarrier(bench.eth0, false);
  bench.apply();
  EXPECT_TRUE(bench.carriers.next(bench.now) != nullptr);
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(bench.losses(1 * kj::SECONDS), "") << i;
  EXPECT_TRUE(KJ_ASSERT_NONNULL(bench.carriers.next(bench.now)) == bench.now + 1 * kj::SECONDS);
  EXPECT_NE(bench.losses(1 * kj::SECONDS), "");
  EXPECT_TRUE(bench.carriers.next(bench.now) == nullptr);
  // A card is plugged in later.
  bench.want("eth2");
  auto eth2 = bench.kernel.plug("eth2");
  bench.kernel.setCarrier(eth2, false);
  bench.kernel.setCarrier(bench.eth0, true);
  bench.apply();
  EXPECT_EQ(bench.losses(4 * kj::SECONDS), "");
  EXPECT_EQ(bench.losses(1 * kj::SECONDS), kj::str("eth2: ", kNoCable));
  // A card that is up when first observed, and another a second later: each gets its grace period.
  auto plugIn = [&](kj::StringPtr name) {
    bench.want(name);
    auto index = bench.kernel.plug(name);
    netlink::setUp(bench.kernel, index);
    bench.kernel.setCarrier(index, false);
    return index;
  };
  bench.kernel.setCarrier(eth2, true);
  auto eth3 = plugIn("eth3");
  EXPECT_EQ(bench.losses(0 * kj::SECONDS), "");
  plugIn("eth4");
  EXPECT_EQ(bench.losses(1 * kj::SECONDS), "");
  EXPECT_TRUE(KJ_ASSERT_NONNULL(bench.carriers.next(bench.now)) == bench.now + 4 * kj::SECONDS);
  // A carrier that came and went ends the grace period.
  bench.kernel.setCarrier(eth3, true);
  EXPECT_EQ(bench.losses(1 * kj::SECONDS), "");
  bench.kernel.setCarrier(eth3, false);
  EXPECT_EQ(bench.losses(1 * kj::SECONDS), kj::str("eth3: ", kNoCable));
  EXPECT_EQ(bench.losses(3 * kj::SECONDS), kj::str("eth3: ", kNoCable, "\neth4: ", kNoCable));
}

}  // namespace
}  // namespace talos::networkd
