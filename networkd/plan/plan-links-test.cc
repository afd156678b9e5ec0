// The planner's rules for links, on the model kernel, which refuses what Linux refuses: no step of
// any plan may fail.
#include "networkd/plan/plan-links.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <algorithm>

#include "common/netlink/model/test-kernel.h"
#include "networkd/plan/test-random-network.h"
#include "networkd/plan/tunnel-ports.h"

namespace talos::networkd {
namespace {

using netlink::BondMode;
using netlink::TestKernel;
using O = netlink::BondOption;

constexpr int64_t kNow = 1000000000;

kj::String linkText(const Plan& plan) {
  auto steps = KJ_MAP(step, plan.steps) {
    return kj::str(netlink::describe(step.change), "\n");
  };
  auto problems = KJ_MAP(problem, plan.problems) {
    return kj::str("! ", problem, "\n");
  };
  return kj::str(kj::strArray(steps, ""), kj::strArray(problems, ""));
}

Plan planFor(const Wanted& wanted, TestKernel& kernel) {
  return plan(wanted, observe(kernel, true, kNow, RandomNetwork::tables()));
}

// Plans and applies until nothing is left; returns all changes, one a line.
kj::String settleLinks(const Wanted& wanted, TestKernel& kernel) {
  kj::Vector<kj::String> done;
  for (unsigned round = 0; round < 6; ++round) {
    auto todo = planFor(wanted, kernel);
    if (todo.steps.size() == 0) return kj::strArray(done, "");
    done.add(linkText(todo));
    auto changes = KJ_MAP(step, todo.steps) {
      return kj::mv(step.change);
    };
    for (auto& failure : kernel.apply(changes)) {
      KJ_IF_MAYBE (f, failure) {
        ADD_FAILURE() << "round " << round << ": " << f->message.cStr() << "\n"
                      << done.back().cStr();
      }
    }
  }
  ADD_FAILURE() << "does not settleLinks; still:\n" << linkText(planFor(wanted, kernel)).cStr();
  return kj::strArray(done, "");
}

WantedLink link(kj::StringPtr name, kj::StringPtr kind = "", kj::StringPtr master = "") {
  WantedLink result;
  result.name = kj::str(name);
  result.version = 1;
  result.kind = kj::str(kind);
  result.master = kj::str(master);
  return result;
}
WantedLink vlan(kj::StringPtr parent, uint16_t id) {
  auto result = link(kj::str(parent, ".", id), "vlan");
  result.parent = kj::str(parent);
  result.vlan.id = id;
  return result;
}
// Returns bond0 of eth0 and eth1.
Wanted bonded(BondMode mode, uint32_t miimon = 100) {
  Wanted wanted;
  auto& bond = wanted.links.add(link("bond0", "bond"));
  bond.bond[O::kMode] = uint32_t(mode);
  if (miimon != 0) bond.bond[O::kMiimon] = miimon;
  wanted.links.add(link("eth0", "", "bond0"));
  wanted.links.add(link("eth1", "", "bond0"));
  return wanted;
}

struct TwoCards : TestKernel {
  unsigned eth0 = plug("eth0"), eth1 = plug("eth1");
  netlink::Link at(kj::StringPtr name) { return KJ_ASSERT_NONNULL(netlink::findLink(*this, name)); }
};

// Catches: members that are up when they join, an address before the bond is up, options after the
// members.
TEST(PlanLinks, ABondInTheOrderThatTheKernelWants) {
  TwoCards kernel;
  netlink::setUp(kernel, kernel.eth0);
  auto wanted = bonded(BondMode::kActiveBackup);
  wanted.links[0].primary = kj::str("eth1");
  wanted.addresses.add(WantedAddress{.link = kj::str("bond0"),
                                     .prefix = KJ_ASSERT_NONNULL(Prefix::parse("10.0.0.2/24"))});
  EXPECT_STREQ(settleLinks(wanted, kernel).cStr(),
               "set link 1 up\n"
               "add link bond0, bond with mode active-backup, miimon 100\n"
               "set link 2 down\n"
               "set link 2 master 4\n"
               "set link 3 master 4\n"
               "set bond 4: primary 3\n"
               "set link 4 up\n"
               "add address 10.0.0.2/24 to link 4\n");
}

// Catches: an outage for a change that requires none.
TEST(PlanLinks, OptionsThatNeedNothingTakeNothingDown) {
  TwoCards kernel;
  settleLinks(bonded(BondMode::kActiveBackup), kernel);
  auto wanted = bonded(BondMode::kActiveBackup, 200);
  wanted.links[0].bond[O::kUpDelay] = 450;
  EXPECT_STREQ(settleLinks(wanted, kernel).cStr(), "set bond 4: miimon 200, updelay 400\n");
}

// Catches: options that keep their values when the config does not name them any more.
TEST(PlanLinks, AnOptionThatIsNotNamedAnyMoreIsTheStandardAgain) {
  TwoCards kernel;
  auto wanted = bonded(BondMode::kBalanceXor);
  wanted.links[0].bond[O::kXmitHashPolicy] = 1;
  wanted.links[0].bond[O::kAllMembersActive] = 1;
  settleLinks(wanted, kernel);
  EXPECT_STREQ(settleLinks(bonded(BondMode::kBalanceXor), kernel).cStr(),
               "set bond 4: xmitHashPolicy 0, allSlavesActive 0\n");
}

// Catches: EBUSY for options that require the bond down, and emptying it for them.
TEST(PlanLinks, TheLacpRateTakesTheBondDownButKeepsItsMembers) {
  TwoCards kernel;
  settleLinks(bonded(BondMode::kLacp), kernel);
  auto wanted = bonded(BondMode::kLacp);
  wanted.links[0].bond[O::kLacpRate] = 1;
  EXPECT_STREQ(settleLinks(wanted, kernel).cStr(),
               "set link 4 down\nset bond 4: lacpRate 1\nset link 4 up\n");
}

// Catches: ENOTEMPTY for a new mode, and a bond that stays empty after it.
TEST(PlanLinks, ANewModeEmptiesTheBondAndFillsItAgain) {
  TwoCards kernel;
  settleLinks(bonded(BondMode::kActiveBackup), kernel);
  auto steps = settleLinks(bonded(BondMode::kLacp), kernel);
  EXPECT_EQ(kernel.at("bond0").bond->mode(), BondMode::kLacp);
  EXPECT_EQ(kernel.at("eth0").master, kernel.at("bond0").index);
  EXPECT_TRUE(kernel.at("eth1").up());
  EXPECT_STREQ(steps.cStr(),
               "set link 2 master 0\nset link 3 master 0\nset link 4 down\n"
               "set bond 4: mode 802.3ad\n"
               "set link 2 master 4\nset link 3 master 4\nset link 4 up\n");
}

// Catches: a missing member that keeps the others out.
TEST(PlanLinks, AMissingMemberDoesNotStopTheOthers) {
  TestKernel kernel;
  kernel.plug("eth0");
  auto wanted = bonded(BondMode::kActiveBackup);
  settleLinks(wanted, kernel);
  auto bond = KJ_ASSERT_NONNULL(netlink::findLink(kernel, "bond0"));
  EXPECT_TRUE(bond.up() && bond.carrier);
  EXPECT_STREQ(linkText(planFor(wanted, kernel)).cStr(),
               "! link eth1: unknown link \"eth1\"; known links: lo, eth0, bond0\n");
  kernel.plug("eth1");
  settleLinks(wanted, kernel);
  EXPECT_EQ(KJ_ASSERT_NONNULL(netlink::findLink(kernel, "eth1")).master, bond.index);
}

// Catches: the removal of links that networkd did not make; unwanted links of networkd that stay.
TEST(PlanLinks, RemovesOwnLinksAndNoOthers) {
  TwoCards kernel;
  netlink::addLink(kernel, "cni0", netlink::Bridge{});
  netlink::addLink(kernel, "tap0", netlink::Dummy{});
  auto wanted = bonded(BondMode::kActiveBackup);
  wanted.links.add(vlan("bond0", 100));
  wanted.links.add(link("dummy7", "dummy"));
  settleLinks(wanted, kernel);
  EXPECT_STREQ(settleLinks(Wanted(), kernel).cStr(),
               "delete link 8\ndelete link 6\ndelete link 7\n");
  EXPECT_EQ(kernel.links().size(), 5u);  // lo, the two cards, two of other programs
}

// Catches: keeping a bridge without a hardware address, on which no VLAN could ever go up.
TEST(PlanLinks, ABridgeThatLostItsAddressIsMadeAnew) {
  TestKernel kernel;
  Wanted wanted;
  wanted.links.add(link("br0", "bridge"));
  settleLinks(wanted, kernel);
  auto seen = observe(kernel, true, kNow, RandomNetwork::tables());
  for (auto& there : seen.links) {
    if (there.name != "br0") continue;
    for (auto& octet : there.hardwareAddress) octet = 0;
    auto steps = linkText(plan(wanted, seen));
    EXPECT_TRUE(steps.startsWith(kj::str("delete link ", there.index, "\nadd link br0, bridge")))
        << steps.cStr();
    there.group = 0;
    EXPECT_STREQ(linkText(plan(wanted, seen)).cStr(), "") << "another program's";
  }
}

// Catches: a bridge whose hardware address, and with it a lease, changes because another program
// adds a port (a pod's, a virtual machine's) or removes one.
TEST(PlanLinks, ABridgeKeepsTheAddressOfAConfiguredPort) {
  TwoCards kernel;
  unsigned pod = netlink::addLink(kernel, "tap0", netlink::Dummy{});
  auto give = [](unsigned index, kj::byte last) {
    return netlink::SetLink{.index = index, .hardwareAddress = {{2, 0, 0, 0, 0, last}}};
  };
  netlink::change(kernel, give(kernel.eth0, 7));
  netlink::change(kernel, give(kernel.eth1, 5));
  netlink::change(kernel, give(pod, 3));
  auto address = [&] { return netlink::hardwareText(kernel.at("br0").hardwareAddress); };
  Wanted wanted;
  wanted.links.add(link("br0", "bridge"));
  wanted.links.add(link("eth0", "", "br0"));
  wanted.links.add(link("eth1", "", "br0"));
  settleLinks(wanted, kernel);
  EXPECT_EQ(address(), "02:00:00:00:00:05") << "as the kernel chooses it";
  auto join = [&](unsigned master) {
    netlink::change(kernel, netlink::SetLink{.index = pod, .master = master});
  };
  join(kernel.at("br0").index);
  EXPECT_EQ(address(), "02:00:00:00:00:05");
  EXPECT_STREQ(settleLinks(wanted, kernel).cStr(), "");
  join(0);
  EXPECT_EQ(address(), "02:00:00:00:00:05");
  // The card may be moved; two machines of one network must not have its address.
  wanted.links[2].master = kj::str();
  settleLinks(wanted, kernel);
  EXPECT_EQ(address(), "02:00:00:00:00:07");
}

// Catches: a link of another program that is taken for networkd's because of its name.
TEST(PlanLinks, AForeignLinkOfTheNameIsAProblem) {
  TestKernel kernel;
  netlink::addLink(kernel, "bond0", netlink::Dummy{});
  Wanted wanted;
  wanted.links.add(link("bond0", "bond"));
  settleLinks(wanted, kernel);
  EXPECT_STREQ(linkText(planFor(wanted, kernel)).cStr(),
               "! link bond0: the link exists already and is dummy, not a bond; networkd did not "
               "create it and leaves it as it is\n");
}

// Returns eth0.100 before eth0, on a kernel that has both.
Wanted vlanAndParent(TwoCards& kernel) {
  Wanted wanted;
  wanted.links.add(vlan("eth0", 100));
  wanted.links.add(link("eth0"));
  settleLinks(wanted, kernel);
  return wanted;
}

// Catches: a VLAN that is larger than its parent for a moment (ERANGE), or up before it (ENETDOWN).
TEST(PlanLinks, AVlanFollowsTheMtuOfItsParent) {
  TwoCards kernel;
  auto wanted = vlanAndParent(kernel);
  wanted.links[1].mtu = 9000;
  EXPECT_STREQ(settleLinks(wanted, kernel).cStr(), "set link 2 mtu 9000\nset link 4 mtu 9000\n");
  wanted.links[1].mtu = 1400;
  EXPECT_STREQ(settleLinks(wanted, kernel).cStr(), "set link 2 mtu 1400\n");
  EXPECT_EQ(kernel.at("eth0.100").mtu, 1400u);
}

// Catches: an MTU that the kernel refuses, set again and again, while the boot waits for it; a VLAN
// that does not get its MTU later, when its parent has it.
TEST(PlanLinks, AVlanHasAtMostTheMtuOfItsParent) {
  TwoCards kernel;
  auto wanted = vlanAndParent(kernel);
  wanted.links[0].mtu = 9000;
  auto todo = planFor(wanted, kernel);
  EXPECT_STREQ(
      linkText(todo).cStr(),
      "! link eth0.100: the MTU 9000 is more than that of its parent eth0, so it has 1500; "
      "set the MTU of eth0, too\n");
  EXPECT_EQ(todo.applied, 2u);
  wanted.links[1].mtu = 9000;
  EXPECT_STREQ(settleLinks(wanted, kernel).cStr(), "set link 2 mtu 9000\nset link 4 mtu 9000\n");
}

// Catches: an order that is right only if the kernel reports parents first.
TEST(PlanLinks, AParentGoesBeforeItsVlans) {
  TwoCards kernel;
  auto wanted = vlanAndParent(kernel);
  wanted.links[1].mtu = 9000;
  netlink::change(kernel, netlink::SetLink{.index = kernel.eth0, .up = false});
  auto seen = observe(kernel, true, kNow, RandomNetwork::tables());
  std::reverse(seen.links.begin(), seen.links.end());
  EXPECT_STREQ(linkText(plan(wanted, seen)).cStr(),
               "set link 2 mtu 9000\nset link 4 mtu 9000\nset link 2 up\n");
}

// Catches: a VLAN that is created larger than its parent currently is.
TEST(PlanLinks, ANewVlanWaitsForTheMtuOfItsParent) {
  TwoCards kernel;
  Wanted wanted;
  wanted.links.add(vlan("eth0", 100)).mtu = 9000;
  wanted.links.add(link("eth0")).mtu = 9000;
  settleLinks(wanted, kernel);
  EXPECT_EQ(kernel.at("eth0.100").mtu, 9000u);
}

// Catches: a member that is taken down because its spec says down; the bond sets it up again, and
// so on without end.
TEST(PlanLinks, TheBondKeepsItsMembersUp) {
  TwoCards kernel;
  auto wanted = bonded(BondMode::kActiveBackup);
  wanted.links[1].up = false;
  settleLinks(wanted, kernel);
  EXPECT_TRUE(kernel.at("eth0").up());
}

// Catches: a primary that is not a member, which the driver keeps until it becomes one.
TEST(PlanLinks, ThePrimaryIsAMember) {
  TwoCards kernel;
  kernel.plug("eth2");
  auto wanted = bonded(BondMode::kActiveBackup);
  wanted.links[0].primary = kj::str("eth2");
  settleLinks(wanted, kernel);
  EXPECT_STREQ(linkText(planFor(wanted, kernel)).cStr(),
               "! link bond0: its primary eth2 is not one of its members\n");
}

// Catches: a wrong message, options that the kernel would refuse, and those that it would accept
// and never use.
TEST(PlanLinks, WhatHasNoMeaningIsSaidAndNotSent) {
  TwoCards kernel;
  auto wanted = bonded(BondMode::kActiveBackup, 0);
  wanted.links[0].bond[O::kXmitHashPolicy] = 1;
  wanted.links[0].bond[O::kLacpRate] = 1;
  wanted.links[0].bond[O::kUpDelay] = 200;
  wanted.links[0].bond[O::kArpValidate] = 3;
  wanted.links[0].primary = kj::str("eth7");
  settleLinks(wanted, kernel);
  EXPECT_STREQ(linkText(planFor(wanted, kernel)).cStr(),
               "! link bond0: xmitHashPolicy is used only in modes balance-xor, 802.3ad and "
               "balance-tlb, not in active-backup\n"
               "! link bond0: lacpRate is used only in mode 802.3ad, not in active-backup\n"
               "! link bond0: arpValidate has no effect without arpInterval\n"
               "! link bond0: updelay has no effect without miimon\n"
               "! link bond0: its primary eth7 is not one of its members\n");
  EXPECT_EQ(0u, (*kernel.at("bond0").bond)[O::kXmitHashPolicy].value_or(0));
}

// Catches: a policy for a primary that the bond does not have, without a word.
TEST(PlanLinks, APolicyForThePrimaryNeedsAPrimary) {
  TwoCards kernel;
  auto wanted = bonded(BondMode::kActiveBackup);
  wanted.links[0].bond[O::kPrimaryReselect] = 1;
  settleLinks(wanted, kernel);
  EXPECT_STREQ(linkText(planFor(wanted, kernel)).cStr(),
               "! link bond0: primaryReselect has no effect without primary\n");
  wanted.links[0].primary = kj::str("eth1");
  settleLinks(wanted, kernel);
  EXPECT_STREQ(linkText(planFor(wanted, kernel)).cStr(), "");
}

// --- WireGuard
WantedPeer peer(kj::byte number, kj::StringPtr network) {
  WantedPeer peer;
  peer.publicKey = RandomNetwork::secret(number).publicKey();
  peer.allowed = {KJ_ASSERT_NONNULL(Prefix::parse(network))};
  return peer;
}
Wanted tunnel() {
  Wanted wanted;
  auto& wg0 = wanted.links.add(link("wg0", "wireguard"));
  wg0.wireguard.privateKey = RandomNetwork::secret(1);
  wg0.wireguard.listenPort = 51820;
  wg0.wireguard.peers.add(peer(10, "10.7.1.0/24"));
  wg0.wireguard.peers.add(peer(11, "10.7.2.0/24"));
  return wanted;
}

// Catches: peers that lose their session because another peer changed.
TEST(PlanLinks, OnlyThePeerThatChangedIsNamed) {
  TestKernel kernel;
  settleLinks(tunnel(), kernel);
  auto wanted = tunnel();
  wanted.links[0].wireguard.peers[1].keepalive = 25;
  EXPECT_STREQ(settleLinks(wanted, kernel).cStr(),
               kj::str("set WireGuard of link 2: peer ",
                       netlink::toText(RandomNetwork::secret(11).publicKey()), " every 25 s\n")
                   .cStr());
  wanted.links[0].wireguard.privateKey = RandomNetwork::secret(2);
  EXPECT_STREQ(settleLinks(wanted, kernel).cStr(), "set WireGuard of link 2: private key\n");
}

// Catches: a peer that gets its endpoint back although it moved to another address; a peer that
// never gets it back after it vanished from there.
TEST(PlanLinks, APeerThatRoamsIsFollowedWhileItWorks) {
  auto at = [](kj::StringPtr ip) { return Endpoint{KJ_ASSERT_NONNULL(Ip::parse(ip)), 9}; };
  WantedWireguard wanted;
  wanted.privateKey = RandomNetwork::secret(1);
  auto& want = wanted.peers.add(peer(10, "10.7.1.0/24"));
  want.resolved = at("192.0.2.1");
  netlink::WireguardDevice there;
  there.publicKey = RandomNetwork::secret(1).publicKey();
  there.peers.push_back({.publicKey = want.publicKey,
                         .endpoint = at("203.0.113.7"),
                         .allowed = want.allowed,
                         .lastHandshake = kNow - 100});
  auto sends = [&] {
    return wireguardDifference(2, wanted, there, {}, kNow, [](kj::StringPtr) {}) != nullptr;
  };
  EXPECT_FALSE(sends());
  want.moved = true;  // the config has another endpoint
  EXPECT_TRUE(sends());
  want.moved = false;
  there.peers[0].lastHandshake = kNow - 200;
  EXPECT_TRUE(sends());
}

// Catches: a port that stays although the config no longer has it; a port that the kernel or
// another program chose and that is given back at each pass.
TEST(PlanLinks, APortThatTheConfigNoLongerHasIsGivenBack) {
  WantedWireguard wanted;
  wanted.privateKey = RandomNetwork::secret(1);
  netlink::WireguardDevice there;
  there.publicKey = RandomNetwork::secret(1).publicKey();
  there.listenPort = 51820;
  std::vector<TunnelPort> ports = {{3, 51820}, {2, 51821}};
  auto change = [&] {
    auto set = wireguardDifference(2, wanted, there, ports, kNow, [](kj::StringPtr) {});
    KJ_IF_MAYBE (s, set) return netlink::describe(*s);
    return kj::str();
  };
  EXPECT_STREQ(change().cStr(), "");
  ports.push_back({2, 51820});
  EXPECT_STREQ(change().cStr(), "set WireGuard of link 2: a free port");
  there.listenPort = 40123;  // the kernel's choice
  EXPECT_STREQ(change().cStr(), "");
  wanted.listenPort = 51820;
  EXPECT_STREQ(change().cStr(), "set WireGuard of link 2: port 51820");
  there.listenPort = 51820;
  EXPECT_STREQ(change().cStr(), "");
}

// Catches: a port of a config that is forgotten before it is given back, or remembered when the
// kernel has chosen another one; an unreadable line that costs more than itself.
TEST(PlanLinks, PortsOfConfigsAreKeptUntilTheyAreGivenBack) {
  TestKernel kernel;
  auto wanted = tunnel();
  std::vector<TunnelPort> ports;
  auto observed = [&] { return observe(kernel, true, kNow, RandomNetwork::tables()); };
  EXPECT_FALSE(remember(ports, wanted, observed()));  // The link does not exist yet.
  settleLinks(wanted, kernel);
  EXPECT_TRUE(remember(ports, wanted, observed()));
  EXPECT_FALSE(remember(ports, wanted, observed()));
  EXPECT_STREQ(format(ports).cStr(), "2 51820\n");
  EXPECT_TRUE(parseTunnelPorts("x\n2 0\n2 70000\n2 51820\n2 51820\n") == ports);
  EXPECT_FALSE(forget(ports, wanted, observed()));
  wanted.links[0].wireguard.listenPort = 0;
  EXPECT_FALSE(remember(ports, wanted, observed()));
  EXPECT_FALSE(forget(ports, wanted, observed()));
  netlink::change(kernel, netlink::SetWireguard{.index = 2, .listenPort = 40123});
  EXPECT_TRUE(forget(ports, wanted, observed()));
  EXPECT_TRUE(ports.empty());
  ports = {{2, 40123}, {9, 51820}};  // Link 9 is gone.
  EXPECT_TRUE(forget(ports, wanted, observed()));
  EXPECT_STREQ(format(ports).cStr(), "2 40123\n");
}

// Catches: two peers that take a network from each other for ever.
TEST(PlanLinks, ANetworkBehindTwoPeersIsTheFirstOnes) {
  TestKernel kernel;
  auto wanted = tunnel();
  wanted.links[0].wireguard.peers[1].allowed = wanted.links[0].wireguard.peers[0].allowed;
  settleLinks(wanted, kernel);
  EXPECT_EQ(planFor(wanted, kernel).problems.size(), 1u);
  auto device = kernel.wireguard(2);
  EXPECT_EQ(device.peers[0].allowed.size(), 1u);
  EXPECT_EQ(device.peers[1].allowed.size(), 0u);
}

// Catches: an endless plan, because the kernel ignores the machine's own key.
TEST(PlanLinks, APeerThatIsThisMachineIsAProblem) {
  TestKernel kernel;
  auto wanted = tunnel();
  auto& wireguard = wanted.links[0].wireguard;
  wireguard.peers[1].publicKey = KJ_ASSERT_NONNULL(wireguard.privateKey).publicKey();
  settleLinks(wanted, kernel);
  EXPECT_EQ(kernel.wireguard(2).peers.size(), wireguard.peers.size() - 1);
  auto left = planFor(wanted, kernel);
  ASSERT_EQ(left.problems.size(), 1u);
  EXPECT_TRUE(left.problems[0].endsWith(" is this node itself")) << left.problems[0].cStr();
}

// --- any network to any other
//
// Catches: every order that the kernel refuses, every endless plan, and every trace that a config
// leaves in the next: after A, B, A the network is as on a machine that had only A.
TEST(PlanLinks, RandomNetworksFromOneToAnotherAndBack) {
  constexpr unsigned kPairs = 2000, kHardware = 6;
  for (unsigned seed = 1; seed <= kPairs && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomNetwork generate(seed);
    auto a = generate.make(kHardware), b = generate.make(kHardware);
    auto machine = [&](TestKernel& kernel) {
      for (unsigned i = 0; i < kHardware; ++i) kernel.plug(kj::str("eth", i));
      netlink::addLink(kernel, "cni0", netlink::Bridge{});
    };
    TestKernel fresh, used;
    machine(fresh);
    machine(used);
    settleLinks(a, fresh);
    auto asNew = describeNetwork(fresh, a);
    settleLinks(a, used);
    settleLinks(b, used);
    EXPECT_TRUE(netlink::findLink(used, "cni0") != nullptr);
    settleLinks(a, used);
    ASSERT_STREQ(describeNetwork(used, a).cStr(), asNew.cStr());
    used.takeChangeCount();
    ASSERT_EQ(planFor(a, used).steps.size(), 0u);
    for (auto& want : a.links) ASSERT_TRUE(netlink::findLink(used, want.name) != nullptr);
  }
}

}  // namespace
}  // namespace talos::networkd
