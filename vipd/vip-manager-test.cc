#include "vipd/vip-manager.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/etcd/test-etcd.h"
#include "common/netlink/model/test-kernel.h"
#include "common/netlink/netlink-codec.h"
#include "common/testing/test-ip.h"
#include "common/testing/virtual-time.h"
#include "vipd/test-provider.h"

namespace talos::vipd {
namespace {

using netlink::TestKernel;

class TestGuard final : public Guard {
 public:
  explicit TestGuard(kj::Timer& timer) : timer(timer) {}
  bool tooLate = false;
  kj::Array<kj::byte> undone;  // undo message of the last body
  bool before(kj::TimePoint latest, kj::ArrayPtr<const kj::byte> undo,
              kj::FunctionParam<void()> body) override {
    if (tooLate || timer.now() >= latest) return false;
    undone = kj::heapArray(undo);
    body();
    return true;
  }

 private:
  kj::Timer& timer;
};

class TestAnnouncer final : public Announcer {
 public:
  std::vector<std::string> said;
  void announce(const Segment& segment, const Ip& address, unsigned n) override {
    said.push_back(kj::str(n, " ", address, " on ", segment.link).cStr());
  }
};

class FakeStore final : public VipStore {
 public:
  bool synced = true;
  std::vector<std::pair<std::string, std::string>> vips = {{"10.5.0.50", "eth0"}};
  std::string host, obstacle;
  bool hcloud = false;
  std::string token = "t";
  std::map<std::string, std::string> statuses;  // "state holder: reason"
  kj::Maybe<Wanted> wanted() override {
    if (!synced) return nullptr;
    Wanted wanted;
    for (auto& [address, link] : vips) {
      wanted.vips.add(Wanted::Vip{Ip::require(address.c_str()), kj::str(link.c_str()),
                                  2 * kj::SECONDS, hcloud, kj::str(token.c_str())});
    }
    wanted.host = kj::str(host.c_str());
    if (!obstacle.empty()) wanted.obstacle = kj::str(obstacle.c_str());
    return kj::mv(wanted);
  }
  kj::Promise<void> publish(kj::Array<Shown> shown) override {
    statuses.clear();
    for (auto& one : shown) {
      constexpr const char* kNames[] = {"idle", "waiting", "holder"};
      statuses[one.address.toString().cStr()] = kj::str(kNames[unsigned(one.status.state)], " ",
                                                        one.status.holder, ": ", one.status.reason)
                                                    .cStr();
    }
    return kj::READY_NOW;
  }
};

class FixedCalendar final : public kj::Clock {
 public:
  kj::Date now() const override { return kj::UNIX_EPOCH; }
};

// A host with eth0 and eth1, and its vipd.
struct Host {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0"), eth1 = kernel.plug("eth1");
  kj::Own<netlink::Monitor> monitor = kernel.monitor();
  etcd::ModelEtcd etcd;
  TestGuard guard;
  TestAnnouncer announcer;
  FixedCalendar calendar;
  std::vector<std::string> ended;  // peers of ended connections, with the kernel's addresses at
                                   // that time
  unsigned looksAtPeers = 0;
  std::vector<std::string> tokens;  // of the providers that were made
  Dependencies deps;
  FakeStore store;
  Signal work;
  kj::Own<VipManager> vips;
  kj::Promise<void> running = nullptr;

  // `cloud` assigns the address, if it is given.
  Host(etcd::ModelCluster& cluster, kj::Timer& timer, kj::StringPtr name,
       TestCloud* cloud = nullptr, const char* token = "t")
      : etcd(cluster),
        guard(timer),
        deps{.etcd = etcd,
             .timer = timer,
             .clock = timer,
             .calendar = calendar,
             .kernel = kernel,
             .guard = guard,
             .announcer = announcer,
             .chance = [] { return 0.5; },
             .endConnections =
                 [this](const Ip& address) {
                   auto text = address.toString();
                   ended.push_back(kj::str(text, has(text) ? ", still there" : "").cStr());
                 },
             .endStalledPeers =
                 [this] {
                   KJ_REQUIRE(++looksAtPeers < 3, "not supported");
                   return size_t(0);
                 },
             .hcloud =
                 [this, cloud](const Ip&, kj::StringPtr token) {
                   tokens.emplace_back(token.cStr());
                   return kj::heap<TestProvider>(*cloud, store.host.c_str());
                 }} {
    store.host = name.cStr();
    store.hcloud = cloud != nullptr;
    store.token = token;
    for (auto index : {eth0, eth1}) netlink::setUp(kernel, index);
    start();
  }
  void start() {
    running = nullptr;
    vips = kj::heap<VipManager>(deps, *monitor, store, work);
    running =
        vips->run().eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  }
  // Acts as SIGKILL.
  void kill() {
    running = nullptr;
    vips = nullptr;
  }
  bool has(kj::StringPtr ip) {
    for (auto& address : kernel.addresses()) {
      if (address.prefix == Prefix::host(Ip::require(ip))) return true;
    }
    return false;
  }
  std::string shown() { return store.statuses["10.5.0.50"]; }
};

struct Vipd : testing::Test {
  ~Vipd() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>() + 100 * kj::SECONDS};
  etcd::ModelCluster cluster{timer};

  void pass(kj::Duration time) { advance(timer, scope, time); }
};

// Catches: an address with the wrong length, mark or link; an address that is not announced; a
// wrong status.
TEST_F(Vipd, TheFirstCandidateHoldsTheAddress) {
  Host a(cluster, timer, "a");
  a.store.vips.push_back({"fd00::50", "eth1"});
  a.work.raise();
  pass(1 * kj::SECONDS);
  bool four = false, six = false;
  for (auto& there : a.kernel.addresses()) {
    if (there.prefix.toString() == "10.5.0.50/32") {
      four = there.link == a.eth0 && there.protocol == netlink::kSharedAddress &&
             (there.flags & IFA_F_NOPREFIXROUTE) != 0;
    }
    if (there.prefix.toString() == "fd00::50/128") {
      six = there.link == a.eth1 && (there.flags & IFA_F_NODAD) != 0;
    }
  }
  EXPECT_TRUE(four);
  EXPECT_TRUE(six);
  EXPECT_EQ(a.shown(), "holder a: elected");
  pass(9 * kj::SECONDS);
  EXPECT_EQ(10u, a.announcer.said.size());
  EXPECT_EQ("0 10.5.0.50 on eth0", a.announcer.said[0]);
}

// Catches: a late address whose undo removes another address, or nothing.
TEST_F(Vipd, WhatIsTakenBackIsWhatWasPut) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  for (auto& there : a.kernel.addresses()) {
    if (there.protocol != netlink::kSharedAddress) continue;
    EXPECT_EQ(netlink::encode(netlink::DeleteAddress{there}), a.guard.undone);
    return;
  }
  FAIL() << "nothing was put";
}

// Catches: a second holder; a hand-over that takes a lease's time; a hand-over that releases the
// key before the address.
TEST_F(Vipd, TheNextOneHasItWhenTheHolderStops) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  Host b(cluster, timer, "b");
  pass(5 * kj::SECONDS);
  EXPECT_TRUE(a.has("10.5.0.50"));
  EXPECT_FALSE(b.has("10.5.0.50"));
  EXPECT_EQ(b.shown(), "waiting a: another node was there first");

  a.etcd.faults.effectAfter = 40 * kj::MILLISECONDS;
  bool ended = false;
  auto stopping =
      a.vips->stop("the node shuts down").then([&] { ended = true; }).eagerlyEvaluate(nullptr);
  pass(1 * kj::MILLISECONDS);
  EXPECT_FALSE(a.has("10.5.0.50"));  // before etcd knows
  EXPECT_FALSE(b.has("10.5.0.50"));
  pass(99 * kj::MILLISECONDS);
  EXPECT_TRUE(b.has("10.5.0.50"));
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(ended);
  EXPECT_TRUE(a.store.statuses.empty());  // no spec wants it any more
}

// Catches: connections of etcd that are listed without need; a failure that ends the looks, or
// more.
TEST_F(Vipd, StalledConnectionsOfEtcdEndWhileAnAddressIsShared) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  auto vips = kj::mv(a.store.vips);
  for (auto& [wanted, looks] : {std::pair{&a.store.vips, 1u}, std::pair{&vips, 10u}}) {
    a.store.vips = *wanted;
    a.work.raise();
    pass(9 * kj::SECONDS);
    EXPECT_EQ(looks, a.looksAtPeers);
  }
}

// Catches: programs of this node that wait for an answer from a lost address; a holder that ends
// its own connections while it has the address.
TEST_F(Vipd, ItsOwnConnectionsEndWithTheAddress) {
  Host a(cluster, timer, "a");
  pass(30 * kj::SECONDS);
  ASSERT_TRUE(a.has("10.5.0.50"));
  const std::vector<std::string> once = {"10.5.0.50"}, twice = {"10.5.0.50", "10.5.0.50"};
  EXPECT_EQ(a.ended, once);  // once at the start: an earlier process may have left the address in
                             // the kernel
  auto stopping = a.vips->stop("the node shuts down").eagerlyEvaluate(nullptr);
  pass(1 * kj::MILLISECONDS);
  EXPECT_EQ(a.ended, twice);
}

// Catches: a new holder that takes the address before the dead holder's is surely gone, or much
// later.
TEST_F(Vipd, ADeadHolderIsFollowedAfterItsLeaseAndTheGuard) {
  Host a(cluster, timer, "a"), b(cluster, timer, "b");
  pass(5 * kj::SECONDS);
  ASSERT_TRUE(a.has("10.5.0.50"));
  a.kill();
  pass(1900 * kj::MILLISECONDS);
  EXPECT_FALSE(b.has("10.5.0.50"));
  pass(1100 * kj::MILLISECONDS);
  EXPECT_TRUE(b.has("10.5.0.50"));
}

// Catches: an address of an earlier process that stays until the store's specs have arrived.
TEST_F(Vipd, WhatAnEarlierLifeHasLeftGoesFirst) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  a.kill();
  ASSERT_TRUE(a.has("10.5.0.50"));
  netlink::addAddress(a.kernel, a.eth0, prefix("10.5.0.7/24"));
  a.store.synced = false;
  a.start();
  pass(1 * kj::MILLISECONDS);
  EXPECT_FALSE(a.has("10.5.0.50"));
  // Addresses of other programs stay.
  auto left = a.kernel.addresses();
  EXPECT_TRUE(std::any_of(left.begin(), left.end(),
                          [](auto& each) { return each.prefix == prefix("10.5.0.7/24"); }));
}

// Catches: holding an unreachable address, and not taking it again.
TEST_F(Vipd, ALinkWithoutCarrierIsGivenUp) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  a.kernel.setCarrier(a.eth0, false);
  pass(100 * kj::MILLISECONDS);
  EXPECT_FALSE(a.has("10.5.0.50"));
  EXPECT_EQ(a.shown(), "idle : link eth0 has no carrier");
  EXPECT_TRUE(cluster.store.nextExpiry() == nullptr);  // no lease is left
  a.kernel.setCarrier(a.eth0, true);
  pass(1 * kj::SECONDS);
  EXPECT_TRUE(a.has("10.5.0.50"));
  a.kernel.rename(a.eth0, "eth7");
  pass(100 * kj::MILLISECONDS);
  EXPECT_FALSE(a.has("10.5.0.50"));
  EXPECT_EQ(a.shown(), "idle : there is no link eth0");
}

// Catches: a holder that continues while etcd of its node is not healthy, or whose spec was removed
// or names another link.
TEST_F(Vipd, LeavesWhenItIsNotWantedAnyMore) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  auto change = [&](auto what) {
    what();
    a.work.raise();
    pass(1 * kj::SECONDS);
  };
  change([&] { a.store.obstacle = "etcd of this node is not healthy"; });
  EXPECT_FALSE(a.has("10.5.0.50"));
  EXPECT_EQ(a.shown(), "idle : etcd of this node is not healthy");
  change([&] { a.store.obstacle = ""; });
  EXPECT_TRUE(a.has("10.5.0.50"));
  change([&] { a.store.vips[0].second = "eth1"; });
  unsigned there = 0;
  for (auto& each : a.kernel.addresses()) {
    if (each.protocol == netlink::kSharedAddress) there = each.link;
  }
  EXPECT_EQ(a.eth1, there);
  change([&] { a.store.vips.clear(); });
  EXPECT_FALSE(a.has("10.5.0.50"));
  EXPECT_TRUE(a.store.statuses.empty());
  EXPECT_TRUE(cluster.store.nextExpiry() == nullptr);  // no lease is left
}

// Catches: a node that counts as gone from an election although its key still exists, so that its
// etcd is stopped before the address is released.
TEST_F(Vipd, IdleMeansThatNothingIsLeft) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  a.etcd.faults.hanging = true;
  a.store.obstacle = "etcd is leaving";
  a.work.raise();
  pass(100 * kj::MILLISECONDS);
  EXPECT_FALSE(a.has("10.5.0.50"));
  EXPECT_EQ(a.shown(), "waiting : etcd is leaving");
  a.etcd.faults.hanging = false;
  pass(2 * kj::SECONDS);
  EXPECT_EQ(a.shown(), "idle : etcd is leaving");
  EXPECT_TRUE(cluster.store.nextExpiry() == nullptr);
}

// Catches: a daemon that ends, and gives up its address, because the list of links changed while it
// was read.
TEST_F(Vipd, AKernelThatCannotBeReadIsAskedAgain) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  a.kernel.disturb(2);
  a.kernel.setCarrier(a.eth0, false);
  pass(500 * kj::MILLISECONDS);
  EXPECT_TRUE(a.has("10.5.0.50"));  // the state is unknown
  pass(2500 * kj::MILLISECONDS);
  EXPECT_FALSE(a.has("10.5.0.50"));
}

// Catches: an address that another program deleted and that stays away while its host is the
// holder.
TEST_F(Vipd, WhatSomebodyTakesAwayIsPutAgain) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  netlink::change(a.kernel,
                  netlink::DeleteAddress{{.link = a.eth0, .prefix = prefix("10.5.0.50/32")}});
  pass(400 * kj::MILLISECONDS);
  EXPECT_TRUE(a.has("10.5.0.50"));
}

// Catches: a holder that keeps its address without etcd; a holder that does not return.
TEST_F(Vipd, WithoutEtcdTheAddressIsLetGoAndComesBack) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  a.etcd.faults.hanging = true;
  pass(2500 * kj::MILLISECONDS);
  EXPECT_FALSE(a.has("10.5.0.50"));
  EXPECT_TRUE(kj::StringPtr(a.shown().c_str()).startsWith("idle :")) << a.shown();
  a.etcd.faults.hanging = false;
  pass(5 * kj::SECONDS);
  EXPECT_TRUE(a.has("10.5.0.50"));
}

// Catches: a lost answer to the creation of the key, whose key then blocks its own host for good.
TEST_F(Vipd, ALostAnswerDelaysAndDoesNotBlock) {
  Host a(cluster, timer, "a");
  a.etcd.faults.answersLost = true;
  pass(1500 * kj::MILLISECONDS);
  a.etcd.faults.answersLost = false;
  pass(6 * kj::SECONDS);
  EXPECT_TRUE(a.has("10.5.0.50"));
}

// Catches: a late put that is not repeated, or counts as done.
TEST_F(Vipd, WhatWasTooLateIsDoneAfterTheNextRenewal) {
  Host a(cluster, timer, "a");
  a.guard.tooLate = true;
  pass(1 * kj::SECONDS);
  EXPECT_FALSE(a.has("10.5.0.50"));
  EXPECT_TRUE(a.announcer.said.empty());
  // The host is not reported as the holder before it has the address.
  EXPECT_EQ(a.shown(), "waiting : elected; the address is not on its link yet");
  a.guard.tooLate = false;
  pass(400 * kj::MILLISECONDS);
  EXPECT_TRUE(a.has("10.5.0.50"));
  ASSERT_EQ(1u, a.announcer.said.size());
  EXPECT_EQ("0 10.5.0.50 on eth0", a.announcer.said[0]);
  EXPECT_EQ(a.shown(), "holder a: elected");
}

// Catches: neighbours that keep sending to a hardware address that the holder no longer has.
TEST_F(Vipd, AnotherHardwareAddressIsAnnounced) {
  Host a(cluster, timer, "a");
  pass(10 * kj::SECONDS);
  ASSERT_EQ(5u, a.announcer.said.size());
  a.kernel.readdress(a.eth0, kj::heapArray<kj::byte>({2, 0, 0, 0, 0, 99}));
  pass(400 * kj::MILLISECONDS);
  ASSERT_EQ(6u, a.announcer.said.size());
  EXPECT_EQ("0 10.5.0.50 on eth0", a.announcer.said[5]);
  EXPECT_TRUE(a.has("10.5.0.50"));
}

// Catches: an announcement by a host whose kernel has removed the address, while its lease lives.
TEST_F(Vipd, WhatTheKernelHasTakenAwayIsNotAnnounced) {
  Host a(cluster, timer, "a");
  while (a.announcer.said.empty()) pass(1 * kj::MILLISECONDS);
  pass(6500 * kj::MILLISECONDS);
  ASSERT_EQ(4u, a.announcer.said.size());
  a.etcd.faults.hanging = true;
  pass(1520 * kj::MILLISECONDS);  // The next announcement was due, more than a second after the
                                  // last renewal.
  EXPECT_EQ(
      a.shown(),
      "holder a: cannot renew the lease: etcd at 10.5.0.2:2379 has not answered keepAlive in time");
  EXPECT_EQ(4u, a.announcer.said.size());
}

size_t countOf(const etcd::ModelEtcd& etcd, const std::string& call) {
  return std::count(etcd.calls.begin(), etcd.calls.end(), call);
}

// Catches: an election that is left and entered repeatedly because etcd takes longer than a beat.
TEST_F(Vipd, ASlowEtcdCostsNobodyTheLease) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  Host b(cluster, timer, "b");
  pass(1 * kj::SECONDS);
  for (auto* host : {&a, &b}) host->etcd.faults.answerAfter = 600 * kj::MILLISECONDS;
  pass(20 * kj::SECONDS);
  EXPECT_EQ(1u, countOf(a.etcd, "grant"));
  EXPECT_EQ(1u, countOf(b.etcd, "grant"));
  EXPECT_EQ(b.shown(), "waiting a: another node was there first");
  EXPECT_TRUE(kj::StringPtr(a.shown().c_str()).startsWith("holder a: etcd answers too slowly"))
      << a.shown();
}

// Catches: waiting nodes that give up their places while etcd has no leader; the next leader keeps
// all leases.
TEST_F(Vipd, WhoWaitsKeepsItsPlaceWhileEtcdAnswersNobody) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  Host b(cluster, timer, "b");
  pass(1 * kj::SECONDS);
  b.etcd.faults.answersLost = true;
  pass(5 * kj::SECONDS);
  EXPECT_TRUE(kj::StringPtr(b.shown().c_str()).startsWith("waiting a: cannot renew the lease"))
      << b.shown();
  b.etcd.faults.answersLost = false;
  pass(2 * kj::SECONDS);
  EXPECT_EQ(1u, countOf(b.etcd, "grant"));
  EXPECT_EQ(b.shown(), "waiting a: another node was there first");
}

// Catches: a holder that also gives up its key when etcd is unreachable for a while, so that others
// wait until its lease has ended.
TEST_F(Vipd, AHolderHasTheAddressAgainWhenEtcdStillHasItsKey) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  Host b(cluster, timer, "b");
  pass(1 * kj::SECONDS);
  a.etcd.faults.answersLost = true;
  pass(3 * kj::SECONDS);
  EXPECT_FALSE(a.has("10.5.0.50"));
  EXPECT_FALSE(b.has("10.5.0.50"));
  a.etcd.faults.answersLost = false;
  pass(400 * kj::MILLISECONDS);
  EXPECT_TRUE(a.has("10.5.0.50"));
  EXPECT_EQ(1u, countOf(a.etcd, "grant"));
}

// Catches: a node that never learns that the holder has gone.
TEST_F(Vipd, ASilentWatchIsNotWaitedForForEver) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  Host b(cluster, timer, "b");
  b.etcd.faults.silent = true;
  pass(5 * kj::SECONDS);
  a.kill();
  pass(20 * kj::SECONDS);
  EXPECT_TRUE(b.has("10.5.0.50"));
}

// Catches: an unreadable list whose retries multiply with every notice.
TEST_F(Vipd, NoticesDoNotMultiplyTheTries) {
  Host a(cluster, timer, "a");
  pass(1 * kj::SECONDS);
  constexpr unsigned kNotices = 10, kSeconds = 10;
  a.kernel.disturb(1000);
  for (unsigned i = 0; i < kNotices; ++i) {
    a.kernel.setCarrier(a.eth1, i % 2 == 0);
    pass(1 * kj::MILLISECONDS);
  }
  pass(kSeconds * kj::SECONDS);
  EXPECT_LE(1000 - a.kernel.stillDisturbed(), kNotices + kSeconds + 1);
  a.kernel.disturb(0);
}

// Catches: an address that is on a link and not assigned there, or announced; a node that holds it
// while it can assign nothing.
TEST_F(Vipd, ACloudAssignsTheAddressToTheHolder) {
  TestCloud cloud{.problem = "401"};
  Host a(cluster, timer, "a", &cloud);
  pass(500 * kj::MILLISECONDS);
  EXPECT_FALSE(a.has("10.5.0.50"));
  EXPECT_EQ(a.shown(), "idle : cannot find this server and the shared address at the cloud: 401");
  cloud.problem = "";
  pass(2 * kj::SECONDS);
  EXPECT_TRUE(a.has("10.5.0.50"));
  EXPECT_EQ(a.shown(), "holder a: elected");
  EXPECT_EQ(cloud.at, "a");
  pass(30 * kj::SECONDS);
  EXPECT_TRUE(a.announcer.said.empty());
}

// Catches: an election that waits for the cloud; a status that hides that the address is not
// assigned.
TEST_F(Vipd, TheHolderHasTheAddressWhileTheCloudFails) {
  TestCloud cloud;
  Host a(cluster, timer, "a", &cloud);
  pass(500 * kj::MILLISECONDS);
  a.kill();
  Host b(cluster, timer, "b", &cloud);
  pass(100 * kj::MILLISECONDS);
  cloud.problem = "503";
  pass(4 * kj::SECONDS);
  EXPECT_TRUE(b.has("10.5.0.50"));
  EXPECT_EQ(b.shown(),
            "holder b: cannot assign the shared address to this server at the cloud: 503");
  cloud.problem = "";
  pass(8 * kj::SECONDS);
  EXPECT_EQ(cloud.at, "b");
  EXPECT_EQ(b.shown(), "holder b: elected");
}

// Catches: a call for a lost address that continues, and takes it from the next holder.
TEST_F(Vipd, ALostElectionEndsTheCallsToTheCloud) {
  TestCloud cloud;
  Host a(cluster, timer, "a", &cloud);
  pass(1 * kj::SECONDS);
  ASSERT_EQ(cloud.at, "a");
  cloud.hangs = true;
  pass(60 * kj::SECONDS);
  ASSERT_EQ(1u, cloud.pending);
  ASSERT_TRUE(a.has("10.5.0.50"));
  a.store.obstacle = "etcd of this node is not healthy";
  a.work.raise();
  pass(100 * kj::MILLISECONDS);
  EXPECT_FALSE(a.has("10.5.0.50"));
  EXPECT_EQ(0u, cloud.pending);
}

// Catches: a new token that is not used, or costs the address; a node that stands for election
// without one.
TEST_F(Vipd, ANewTokenIsUsedWithoutAnElection) {
  TestCloud cloud;
  Host a(cluster, timer, "a", &cloud, "");
  pass(500 * kj::MILLISECONDS);
  EXPECT_EQ(a.shown(), "idle : waiting for the API token of Hetzner Cloud");
  a.store.token = "first";
  a.work.raise();
  pass(1 * kj::SECONDS);
  ASSERT_EQ(a.shown(), "holder a: elected");
  cloud.at = "";
  cloud.problem = "401";
  a.store.token = "second";
  a.work.raise();
  pass(10 * kj::SECONDS);
  EXPECT_TRUE(a.has("10.5.0.50"));
  EXPECT_EQ(a.tokens, (std::vector<std::string>{"first", "second"}));
  cloud.problem = "";
  pass(15 * kj::SECONDS);
  EXPECT_EQ(cloud.at, "a");
  a.store.hcloud = false;
  a.work.raise();
  pass(5 * kj::SECONDS);
  EXPECT_TRUE(a.has("10.5.0.50"));
  EXPECT_FALSE(a.announcer.said.empty());
}

}  // namespace
}  // namespace talos::vipd
