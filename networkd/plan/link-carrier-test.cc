// Which links are told to have no carrier, on the model kernel.
#include "networkd/plan/link-carrier.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/netlink/test-kernel.h"
#include "common/netlink/test-netlink.h"

namespace talos::networkd {
namespace {

using netlink::TestKernel;

constexpr auto kWaits = "; waiting for carrier";

// A kernel on which a config is applied, and what is told of it.
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
  kj::String told(kj::Duration later = 1 * kj::MINUTES) {
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
  CarrierBench world;
  world.want("eth0");
  world.want("eth1").up = false;
  world.apply();
  EXPECT_EQ(world.told(), "");
  world.kernel.setCarrier(world.eth1, false);
  EXPECT_EQ(world.told(), "") << "it is wanted down";
  netlink::setUp(world.kernel, world.eth1);
  world.kernel.setCarrier(world.eth1, false);
  EXPECT_EQ(world.told(), "") << "also when somebody takes it up";
  world.kernel.setCarrier(world.eth0, false);
  EXPECT_EQ(world.told(0 * kj::SECONDS), kj::str("eth0: ", kNoCable)) << "at once";
  world.kernel.setCarrier(world.eth0, true);
  EXPECT_EQ(world.told(), "");
  netlink::setUp(world.kernel, world.eth0, false);
  world.kernel.setCarrier(world.eth0, false);
  EXPECT_EQ(world.told(), "") << "it is down: that is another problem";
  world.kernel.unplug(world.eth0);
  EXPECT_EQ(world.told(), "") << "that is another problem";
}

// Catches: false alarms. No config wants the second card: `ignore`, or not named.
TEST(Carriers, LinksThatNeedNoneAreNotToldOf) {
  CarrierBench world;
  world.want("dummy0", "dummy");
  world.want("wg0", "wireguard").wireguard.privateKey =
      netlink::WireguardSecret::parse("YK2tyGl8Ff+T5sSSqYVVcDrEwxbbo8nMC2MJRaZv1Uc=");
  world.want("br0", "bridge");
  world.want("lo");
  world.apply();
  netlink::setUp(world.kernel, world.eth1);
  auto observed = world.look();
  for (auto& link : observed.links) world.kernel.setCarrier(link.index, false);
  EXPECT_EQ(world.told(), "");
  // Ports of other programs, as those of containers, are not the config's.
  netlink::setMaster(world.kernel, world.eth1, netlink::indexOf(world.kernel, "br0"));
  EXPECT_EQ(world.told(), "");
  // Hardware that has the name of a link that is to be made.
  world.want("eth1", "dummy");
  EXPECT_EQ(world.told(), "");
}

TEST(Carriers, BondsBridgesAndVlansSayWhatTheyStandOn) {
  CarrierBench world;
  world.member("eth0", "bond0");
  world.member("eth1", "bond0");
  world.want("bond0", "bond");
  auto& vlan = world.want("bond0.5", "vlan");
  vlan.parent = kj::str("bond0");
  vlan.vlan.id = 5;
  world.apply();
  EXPECT_EQ(world.told(), "");
  world.kernel.setCarrier(world.eth0, false);
  EXPECT_EQ(world.told(), kj::str("eth0: ", kNoCable)) << "the bond goes on";
  world.kernel.setCarrier(world.eth0, true);
  world.kernel.setCarrier(world.eth1, false);
  world.kernel.setCarrier(netlink::indexOf(world.kernel, "bond0"), false);
  EXPECT_EQ(world.told(), kj::str("eth1: ", kNoCable,
                                  "\nbond0: none of its members is ready for traffic yet (eth0, "
                                  "eth1)\nbond0.5: the link bond0 below it has no carrier"));
  world.kernel.setCarrier(world.eth0, false);
  world.kernel.setCarrier(world.eth1, false);
  EXPECT_EQ(world.told(), kj::str("eth0: ", kNoCable, "\neth1: ", kNoCable,
                                  "\nbond0: none of its members has one (eth0, eth1)"
                                  "\nbond0.5: the link bond0 below it has no carrier"));
  world.kernel.unplug(world.eth0);
  netlink::setMaster(world.kernel, world.eth1, 0);
  netlink::setUp(world.kernel, world.eth1);
  world.kernel.setCarrier(world.eth1, true);
  constexpr auto kNobody =
      "bond0: none of its members exists (eth0, eth1)\n"
      "bond0.5: the link bond0 below it has no carrier";
  EXPECT_EQ(world.told(), kNobody) << "eth1 is, but in no bond";
  world.kernel.unplug(world.eth1);
  EXPECT_EQ(world.told(), kNobody);
  world.wanted.links.truncate(0);
  world.want("bond0", "bond");
  EXPECT_EQ(world.told(), "bond0: it has no member");

  CarrierBench bridged;
  bridged.member("eth0", "br0");
  bridged.want("br0", "bridge");
  bridged.apply();
  auto bridge = netlink::indexOf(bridged.kernel, "br0");
  bridged.kernel.setCarrier(bridge, false);
  EXPECT_EQ(bridged.told(), "br0: none of its ports is ready for traffic yet (eth0)");
  bridged.kernel.setCarrier(bridged.eth0, false);
  EXPECT_EQ(bridged.told(), kj::str("eth0: ", kNoCable, "\nbr0: none of its ports has one (eth0)"));
}

// Catches: an alarm for each socket of a machine without a cable, of a config that names none of
// them; and none for the only card of such a machine.
TEST(Carriers, ACardThatNobodyNamedIsToldOfWhenItWasUsed) {
  CarrierBench world;
  world.want("eth0").layer = kj::str("default");
  world.want("eth1").layer = kj::str("default");
  world.kernel.setCarrier(world.eth1, false);
  world.apply();
  EXPECT_EQ(world.told(), "");
  world.kernel.setCarrier(world.eth0, false);
  EXPECT_EQ(world.told(), kj::str("eth0: ", kNoCable)) << "it had one";
  // After a restart: what it was given says that it was used.
  world.carriers = {};
  EXPECT_EQ(world.told(), "");
  auto expectTold = [&](kj::StringPtr why) {
    EXPECT_EQ(world.told(), kj::str("eth0: ", kNoCable)) << why.cStr();
  };
  world.wanted.addresses.add(WantedAddress{
      .link = kj::str("eth0"), .prefix = KJ_ASSERT_NONNULL(Prefix::parse("10.0.0.2/24"))});
  expectTold("an address");
  world.wanted.addresses.clear();
  world.wanted.routes.add(
      WantedRoute{.link = kj::str("eth0"), .destination = Prefix::all(AF_INET)});
  expectTold("a route");
  world.wanted.routes.clear();
  world.wanted.links[0].master = kj::str("bond0");
  expectTold("a bond");
  world.wanted.links[0].master = kj::String();
  EXPECT_EQ(world.told(), "");
  world.want("eth0.5", "vlan").parent = kj::str("eth0");
  expectTold("a VLAN");
}

// Catches: patience that begins again with each look, or that a running link has.
TEST(Carriers, PatienceIsForLinksThatJustWentUp) {
  CarrierBench world;
  world.want("eth0");
  world.kernel.setCarrier(world.eth0, false);
  world.apply();
  EXPECT_TRUE(world.carriers.next(world.now) != nullptr);
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(world.told(1 * kj::SECONDS), "") << i;
  EXPECT_TRUE(KJ_ASSERT_NONNULL(world.carriers.next(world.now)) == world.now + 1 * kj::SECONDS);
  EXPECT_NE(world.told(1 * kj::SECONDS), "");
  EXPECT_TRUE(world.carriers.next(world.now) == nullptr);
  // A card that is plugged in later.
  world.want("eth2");
  auto eth2 = world.kernel.plug("eth2");
  world.kernel.setCarrier(eth2, false);
  world.kernel.setCarrier(world.eth0, true);
  world.apply();
  EXPECT_EQ(world.told(4 * kj::SECONDS), "");
  EXPECT_EQ(world.told(1 * kj::SECONDS), kj::str("eth2: ", kNoCable));
  // One that is up when it is first seen, and another a second later: each has its moment.
  auto plugIn = [&](kj::StringPtr name) {
    world.want(name);
    auto index = world.kernel.plug(name);
    netlink::setUp(world.kernel, index);
    world.kernel.setCarrier(index, false);
    return index;
  };
  world.kernel.setCarrier(eth2, true);
  auto eth3 = plugIn("eth3");
  EXPECT_EQ(world.told(0 * kj::SECONDS), "");
  plugIn("eth4");
  EXPECT_EQ(world.told(1 * kj::SECONDS), "");
  EXPECT_TRUE(KJ_ASSERT_NONNULL(world.carriers.next(world.now)) == world.now + 4 * kj::SECONDS);
  // A carrier that came and went has had its moment.
  world.kernel.setCarrier(eth3, true);
  EXPECT_EQ(world.told(1 * kj::SECONDS), "");
  world.kernel.setCarrier(eth3, false);
  EXPECT_EQ(world.told(1 * kj::SECONDS), kj::str("eth3: ", kNoCable));
  EXPECT_EQ(world.told(3 * kj::SECONDS), kj::str("eth3: ", kNoCable, "\neth4: ", kNoCable));
}

}  // namespace
}  // namespace talos::networkd
