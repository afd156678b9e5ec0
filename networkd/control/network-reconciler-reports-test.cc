// Reports of the reconciler: problems, remaining steps, repairs, carriers, addresses.
#include <errno.h>

#include "networkd/control/test-network-reconciler.h"
#include "networkd/plan/test-random-network.h"

namespace talos::networkd {
namespace {

// Catches: a status that grows with every route until the store refuses it, and every later status
// is lost.
TEST_F(NetworkReconcilerTest, BoundsTheReportOfAThousandProblems) {
  for (unsigned i = 0; i < 100; ++i) kernel.plug(kj::str("veth", i));
  store.synced = true;
  for (unsigned i = 0; i < 1000; ++i) {
    store.addresses.add(kj::str("10.", i / 250, ".", i % 250, ".2/24"));
  }
  kernel.unplug(eth0);
  start();
  auto problems = store.network().getProblems();
  ASSERT_EQ(problems.size(), 201u);
  EXPECT_STREQ(problems[1].cStr(),
               "address 10.0.0.2/24 on eth0: unknown link \"eth0\"; known links: lo, veth0, veth1, "
               "veth2, veth3, veth4, veth5, veth6, veth7, veth8, veth9, veth10, veth11, veth12, "
               "veth13, veth14 and 85 more");
  EXPECT_STREQ(problems[200].cStr(), "and 801 more");
}

// Catches: a list of remaining steps, or a log, that grows in this way.
TEST_F(NetworkReconcilerTest, BoundsTheReportOfAThousandSteps) {
  store.synced = true;
  for (unsigned i = 0; i < 1000; ++i) {
    store.addresses.add(kj::str("10.", i / 250, ".", i % 250, ".2/24"));
  }
  testing::internal::CaptureStderr();
  start();
  std::string log = testing::internal::GetCapturedStderr();
  unsigned said = 0;
  for (size_t at = 0; (at = log.find("message=\"network changed\" ", at)) != log.npos; ++at) ++said;
  EXPECT_EQ(said, 200u);
  EXPECT_NE(log.find("more network changes, not logged one by one"), log.npos);
  kill();

  for (auto& a : kernel.addresses()) {
    if (a.link == eth0) netlink::change(kernel, netlink::DeleteAddress{a});
  }
  kernel.refuse(eth0, EPERM);
  start();
  auto& plans = KJ_ASSERT_NONNULL(store.last).plans;
  auto steps =
      KJ_ASSERT_NONNULL(plans.find("next"_kj))->getRoot<rpc::LinkPlanSpec>().asReader().getSteps();
  ASSERT_EQ(steps.size(), 201u);
  EXPECT_STREQ(steps[200].cStr(), "and 800 more");
}

// Catches: a list of cables that grows in this way.
TEST_F(NetworkReconcilerTest, BoundsTheReportOfAThousandLinksWithoutACarrier) {
  for (unsigned i = 0; i < 1000; ++i) kernel.setCarrier(kernel.plug(kj::str("veth", i)), false);
  store.synced = true;
  store.more = [](Wanted& wanted) {
    for (unsigned i = 0; i < 1000; ++i) {
      wanted.links.add(WantedLink{.name = kj::str("veth", i), .version = 1});
    }
  };
  start();
  pass(10 * kj::SECONDS);
  auto problems = store.network().getProblems();
  ASSERT_EQ(problems.size(), 201u);
  EXPECT_STREQ(problems[200].cStr(), "and 800 more");
  EXPECT_EQ(KJ_ASSERT_NONNULL(store.last).plans.size(), 1000u);
}

// Catches: a VRF, a pair or a rule that the kernel does not have and that counts as in effect; one
// that keeps the rest of the network from being made.
TEST_F(NetworkReconcilerTest, WhatTheKernelDoesNotKnowIsAProblemByItself) {
  specs();
  store.more = [](Wanted& wanted) {
    wanted.links[0].master = kj::str("red");
    wanted.links.add(WantedLink{.name = kj::str("red"), .version = 1, .kind = kj::str("vrf")});
    wanted.links.back().vrfTable = 77;
    wanted.links.add(WantedLink{.name = kj::str("va"), .version = 1, .kind = kj::str("veth")});
    wanted.links.back().peer = kj::str("vb");
    wanted.links.add(WantedLink{.name = kj::str("vb"), .version = 1, .kind = kj::str("veth")});
    wanted.links.back().peer = kj::str("va");
    wanted.rules.add(
        WantedRule{netlink::Rule{.priority = 1500, .table = 77, .protocol = kMark}, 1});
  };
  kernel.refuse(0, EOPNOTSUPP);  // what has no index: new links, and rules
  start();
  EXPECT_TRUE(has("10.5.0.2/24"));
  EXPECT_TRUE(hasDefault());
  EXPECT_EQ(store.network().getApplied(), 3u);
  kj::Vector<kj::String> problems;
  for (auto problem : store.network().getProblems()) problems.add(kj::str(problem));
  EXPECT_EQ(kj::strArray(problems, "\n"),
            "link red: Operation not supported\n"
            "link va: Operation not supported\n"
            "rule inet4 1500: from all lookup 77: Operation not supported");
  kernel.refuse(0, 0);
  pass(60 * kj::SECONDS);
  EXPECT_EQ(store.network().getProblems().size(), 0u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(netlink::findLink(kernel, "eth0")).master,
            KJ_ASSERT_NONNULL(netlink::findLink(kernel, "red")).index);
}

// Catches: a repair that is reported although no other program interfered, when a missing
// precondition arrives.
TEST_F(NetworkReconcilerTest, WhatBecomesPossibleIsNoRepair) {
  specs();
  store.more = [&](Wanted& wanted) {
    wanted.links.add(WantedLink{.name = kj::str("eth1"), .version = 1});
  };
  start();
  EXPECT_EQ(store.network().getProblems().size(), 1u);
  kernel.plug("eth1");
  pass(1 * kj::SECONDS);
  EXPECT_EQ(store.network().getProblems().size(), 0u);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(netlink::findLink(kernel, "eth1")).up());
  EXPECT_EQ(store.network().getRepairs(), 0u);
}

// Catches: a report without the facts of hardware that a selector needs.
TEST_F(NetworkReconcilerTest, ReportsTheHardwareOfALink) {
  specs();
  start();
  auto& report = KJ_ASSERT_NONNULL(store.last);
  auto link =
      KJ_ASSERT_NONNULL(report.links.find("eth0"_kj))->getRoot<rpc::LinkStatusSpec>().asReader();
  EXPECT_STREQ(kj::str(link.getDriver(), " ", link.getBusPath(), " ", link.getPciID()).cStr(),
               "model_net 0000:00:02.0 1af4:1000");
  EXPECT_EQ(link.getPermanentAddress(), link.getHardwareAddress());
  EXPECT_GT(link.getPermanentAddress().size(), 0u);
}

// Catches: drift that stays until the next change of a spec.
TEST_F(NetworkReconcilerTest, RepairsWhatOthersBreak) {
  specs();
  start();
  pass(1 * kj::SECONDS);
  netlink::change(kernel, netlink::DeleteAddress{{.link = eth0, .prefix = prefix("10.5.0.2/24")}});
  EXPECT_FALSE(hasDefault());
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(has("10.5.0.2/24"));
  EXPECT_TRUE(hasDefault());
  EXPECT_EQ(store.network().getRepairs(), 2u);  // the address, and its route
  auto repaired = store.network().getRepaired();
  ASSERT_EQ(repaired.size(), 2u);
  EXPECT_EQ(repaired[0].getNumber(), 1u);
  EXPECT_STREQ(repaired[0].getLink().cStr(), "eth0");
  EXPECT_STREQ(repaired[0].getWhat().cStr(), "add address 10.5.0.2/24 to link eth0");
  EXPECT_EQ(repaired[1].getNumber(), 2u);
  netlink::setUp(kernel, eth0, false);
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(hasDefault());
  EXPECT_EQ(store.network().getRepairs(), 4u);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(store.last).plans.size() == 0);
}

// Catches: another program's change that is not reported, because the network could not be read
// while it changed.
TEST_F(NetworkReconcilerTest, AReadingThatFailedHidesNoRepair) {
  specs();
  start();
  pass(1 * kj::SECONDS);
  netlink::change(kernel, netlink::DeleteAddress{{.link = eth0, .prefix = prefix("10.5.0.2/24")}});
  kernel.disturb(1);
  pass(1 * kj::SECONDS);
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(has("10.5.0.2/24"));
  EXPECT_EQ(store.network().getRepairs(), 2u);  // the address, and its route
}

// Catches: a repair that is reported although no other program interfered, when a peer that roamed
// gets its endpoint again or the config has another key.
TEST_F(NetworkReconcilerTest, APeerThatIsCalledAgainAndAnotherKeyAreNoRepairs) {
  specs();
  kj::byte key = 1;
  store.more = [&](Wanted& wanted) {
    auto& wg0 = wanted.links.add(
        WantedLink{.name = kj::str("wg0"), .version = 1, .kind = kj::str("wireguard")});
    wg0.wireguard.privateKey = RandomNetwork::secret(key);
    wg0.wireguard.peers.add(
        WantedPeer{.publicKey = RandomNetwork::secret(10).publicKey(),
                   .resolved = Endpoint{KJ_ASSERT_NONNULL(Ip::parse("192.0.2.1")), 9},
                   .allowed = {prefix("10.7.1.0/24")}});
    wg0.wireguard.peers.add(WantedPeer{.publicKey = RandomNetwork::secret(11).publicKey()});
  };
  start();
  auto wg0 = KJ_ASSERT_NONNULL(netlink::findLink(kernel, "wg0")).index;
  auto look = [&] {
    work.raise();
    pass(1 * kj::SECONDS);
    return kernel.wireguard(wg0);
  };
  auto there = look();
  ASSERT_EQ(there.peers.size(), 2u);
  ASSERT_TRUE(there.peers[0].endpoint);
  auto home = *there.peers[0].endpoint;

  there.peers[0].endpoint->address = KJ_ASSERT_NONNULL(Ip::parse("203.0.113.7"));
  kernel.have(wg0, there);
  EXPECT_TRUE(*look().peers[0].endpoint == home);
  key = 2;
  EXPECT_TRUE(look().publicKey == RandomNetwork::secret(2).publicKey());
  EXPECT_EQ(store.network().getRepairs(), 0u);

  there = look();
  there.peers.clear();
  kernel.have(wg0, there);
  EXPECT_EQ(look().peers.size(), 2u);
  EXPECT_EQ(store.network().getRepairs(), 1u);

  // Another program's key is a repair, and so is any other change of a peer.
  there = look();
  there.publicKey = RandomNetwork::secret(3).publicKey();
  kernel.have(wg0, there);
  EXPECT_TRUE(look().publicKey == RandomNetwork::secret(2).publicKey());
  EXPECT_EQ(store.network().getRepairs(), 2u);
  there = look();
  there.peers[0].endpoint->port = 10;
  there.peers[0].keepalive = 7;
  kernel.have(wg0, there);
  EXPECT_EQ(look().peers[0].keepalive, 0u);
  EXPECT_EQ(store.network().getRepairs(), 3u);
  there = look();
  there.peers[0].endpoint->port = 10;
  there.peers[0].allowed = {prefix("10.7.2.0/24")};
  kernel.have(wg0, there);
  EXPECT_TRUE(look().peers[0].allowed == std::vector<Prefix>{prefix("10.7.1.0/24")});
  EXPECT_EQ(store.network().getRepairs(), 4u);
  there = look();
  there.peers.pop_back();
  kernel.have(wg0, there);
  EXPECT_EQ(look().peers.size(), 2u);
  EXPECT_EQ(store.network().getRepairs(), 5u);
}

// Catches: numbers that start again with a new networkd, so that its repairs look like old ones; a
// list that grows for ever.
TEST_F(NetworkReconcilerTest, RepairsAreCountedOnOverARestart) {
  specs();
  start();
  netlink::change(kernel, netlink::DeleteAddress{{.link = eth0, .prefix = prefix("10.5.0.2/24")}});
  pass(1 * kj::SECONDS);
  ASSERT_EQ(store.network().getRepairs(), 2u);
  kill();
  store.repairs.count = 2;
  store.repairs.newest.add(Repairs::One{2, kj::str("eth0"), kj::str("old")});
  start();
  EXPECT_EQ(store.network().getRepaired().size(), 1u);
  for (unsigned i = 0; i < 20; ++i) {
    netlink::change(kernel,
                    netlink::DeleteAddress{{.link = eth0, .prefix = prefix("10.5.0.2/24")}});
    pass(1 * kj::SECONDS);
  }
  EXPECT_EQ(store.network().getRepairs(), 42u);
  auto repaired = store.network().getRepaired();
  ASSERT_EQ(repaired.size(), 32u);
  EXPECT_EQ(repaired[0].getNumber(), 11u);
  EXPECT_EQ(repaired[31].getNumber(), 42u);
}

// Catches: an impossible step that is not shown, or without the time of its retry.
TEST_F(NetworkReconcilerTest, WhatIsLeftToDoIsAPlan) {
  specs();
  kernel.refuse(eth0, EPERM);
  start();
  auto& plans = KJ_ASSERT_NONNULL(store.last).plans;
  auto next = KJ_ASSERT_NONNULL(plans.find("next"_kj))->getRoot<rpc::LinkPlanSpec>();
  EXPECT_STREQ(next.getSteps()[0].cStr(), "set link eth0 up");
  EXPECT_TRUE(kj::StringPtr(next.getRetry()).endsWith("ms")) << next.getRetry().cStr();
  EXPECT_STREQ(store.network().getProblems()[0].cStr(), "link eth0: Operation not permitted");
  EXPECT_EQ(store.network().getRepairs(), 0u);
}

// Catches: a lost carrier that is not reported, or again and again; a lost carrier that blocks
// other steps, makes networkd hammer the kernel, or counts as undone, so that a boot waits for it.
TEST_F(NetworkReconcilerTest, ReportsALostCarrierAndChangesNothing) {
  specs();
  start();
  pass(10 * kj::SECONDS);
  kernel.takeChangeCount();
  auto repairs = store.network().getRepairs();
  testing::internal::CaptureStderr();
  kernel.setCarrier(eth0, false);
  pass(1 * kj::SECONDS);
  constexpr auto kSaid =
      "eth0: no carrier: no cable, or the other end is down; waiting for carrier";
  ASSERT_EQ(store.network().getProblems().size(), 1u);
  EXPECT_STREQ(store.network().getProblems()[0].cStr(), kSaid);
  EXPECT_EQ(store.network().getApplied(), 3u);
  auto& plans = KJ_ASSERT_NONNULL(store.last).plans;
  EXPECT_EQ(plans.size(), 1u);
  auto own = KJ_ASSERT_NONNULL(plans.find("eth0"_kj))->getRoot<rpc::LinkPlanSpec>().asReader();
  EXPECT_STREQ(own.getProblems()[0].cStr(), kSaid);
  EXPECT_EQ(own.getSteps().size(), 0u);
  EXPECT_EQ(own.getRetry().size(), 0u) << "there is nothing to try";
  // Other events follow; the carrier was reported already.
  for (unsigned i = 0; i < 5; ++i) {
    work.raise();
    pass(20 * kj::SECONDS);
  }
  store.addresses.add(kj::str("10.8.0.2/24"));
  work.raise();
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(has("10.8.0.2/24")) << "what can be done is done";
  EXPECT_EQ(kernel.takeChangeCount(), 1u);
  // The address is restored all the same when another program removes it.
  netlink::change(kernel, netlink::DeleteAddress{{.link = eth0, .prefix = prefix("10.8.0.2/24")}});
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(has("10.8.0.2/24"));
  EXPECT_EQ(store.network().getRepairs(), repairs + 1);
  kernel.setCarrier(eth0, true);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(store.network().getProblems().size(), 0u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(store.last).plans.size(), 0u);
  auto log = testing::internal::GetCapturedStderr();
  auto count = [&](std::string_view what) {
    unsigned found = 0;
    for (size_t at = 0; (at = log.find(what, at)) != log.npos; at += what.size()) ++found;
    return found;
  };
  EXPECT_EQ(count("message=problem error=\"eth0: no carrier"), 1u) << log;
  EXPECT_EQ(count("message=\"problem solved\" error=\"eth0: no carrier"), 1u) << log;
}

// Catches: an alarm about hardware that negotiates with its other end for a moment; no alarm
// without another end, because nothing changes any more; a boot that waits for the cable.
TEST_F(NetworkReconcilerTest, ALinkThatWentUpHasAMomentForItsCarrier) {
  specs();
  kernel.setCarrier(eth0, false);
  start();
  EXPECT_EQ(store.network().getApplied(), 3u) << "at once";
  EXPECT_TRUE(has("10.5.0.2/24"));
  EXPECT_EQ(store.network().getProblems().size(), 0u);
  pass(4900 * kj::MILLISECONDS);
  EXPECT_EQ(store.network().getProblems().size(), 0u);
  pass(100 * kj::MILLISECONDS);
  EXPECT_EQ(store.network().getProblems().size(), 1u) << "by itself";
  auto published = store.published;
  pass(3600 * kj::SECONDS);
  EXPECT_EQ(store.published, published) << "and then it is quiet";
  // A new networkd treats the link as up for a long time.
  kill();
  start();
  EXPECT_EQ(store.network().getProblems().size(), 1u);
  // Down and up: the link has a moment again.
  netlink::setUp(kernel, eth0, false);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(store.network().getProblems().size(), 0u);
  pass(5 * kj::SECONDS);
  EXPECT_EQ(store.network().getProblems().size(), 1u);
}

// Catches: an overrun without a complete read after it, or one that is not counted.
TEST_F(NetworkReconcilerTest, AnOverrunIsCountedAndEverythingReadAgain) {
  specs();
  start();
  kernel.overrun();
  pass(1 * kj::SECONDS);
  EXPECT_EQ(store.network().getOverruns(), 1u);
}

// Catches: a host name whose state is reported only after another event.
TEST_F(NetworkReconcilerTest, ReportsThatTheHostNameIsSet) {
  specs();
  store.hostname = kj::str("node-1");
  start();
  EXPECT_FALSE(store.network().getHostnameReady());
  host.name = kj::str("node-1");
  host.nameChanged.raise();
  settle();
  EXPECT_TRUE(store.network().getHostnameReady());
}

// Catches: a default address that changes when a better one appears, which would change
// certificates and membership; a default address that is forgotten while the store has not returned
// it yet.
TEST_F(NetworkReconcilerTest, TheDefaultAddressIsChosenOnce) {
  specs();
  store.addresses.clear();
  store.addresses.add(kj::str("10.5.0.9/24"));
  start();
  store.addresses.add(kj::str("10.5.0.2/24"));
  work.raise();
  settle();
  auto chosen = [&](kj::StringPtr id) {
    auto& report = KJ_ASSERT_NONNULL(store.last);
    auto spec = KJ_ASSERT_NONNULL(report.nodeAddresses.find(id))
                    ->getRoot<rpc::NodeAddressSpec>()
                    .asReader();
    return kj::strArray(spec.getAddresses(), " ");
  };
  EXPECT_STREQ(chosen("default").cStr(), "10.5.0.9");
  EXPECT_STREQ(chosen("current").cStr(), "10.5.0.2 10.5.0.9");

  kill();
  store.stored.chosen.add(KJ_ASSERT_NONNULL(Ip::parse("10.5.0.77")));
  start();
  EXPECT_STREQ(chosen("default").cStr(), "10.5.0.77");
}

}  // namespace
}  // namespace talos::networkd
