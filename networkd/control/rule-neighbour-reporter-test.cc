#include "networkd/control/rule-neighbour-reporter.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include "networkd/control/test-model-machine.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {
namespace {

using netlink::Neighbour;
using netlink::Rule;
using netlink::TestKernel;

kj::String ids(const Records& records) {
  kj::Vector<kj::String> result;
  for (auto& entry : records) result.add(kj::str(entry.key));
  return kj::strArray(result, " ");
}
template <typename Spec>
typename Spec::Reader at(Records& records, kj::StringPtr id) {
  return KJ_ASSERT_NONNULL(records.find(id), id)->template getRoot<Spec>().asReader();
}
// Returns the i-th address of 10.0.0.0/8.
Ip numbered(unsigned i) {
  return ip(kj::str("10.", i >> 16, '.', i >> 8 & 255, '.', i & 255));
}
Neighbour entry(unsigned link, Ip address, uint16_t state = NUD_REACHABLE) {
  return {.link = link, .address = address, .hardwareAddress = {2, 0, 0, 0, 0, 1}, .state = state};
}

// Catches: two rules with one id, of which the store would keep only one; fields under the wrong
// name.
TEST(BystandersView, Rules) {
  TestKernel kernel;
  Rule first{.priority = 100,
             .from = prefix("10.1.0.0/16"),
             .mark = 1,
             .mask = 0xffffffff,
             .iif = "eth0",
             .table = 5,
             .protocol = kMark};
  Rule second{.priority = 100, .to = prefix("10.2.0.0/16"), .oif = "eth1", .action = FR_ACT_GOTO};
  second.target = 200;
  for (auto& rule : {first, second}) kernel.put(rule);
  auto records = ruleStatuses(shownRules(kernel.rules()));
  EXPECT_STREQ(ids(records).cStr(),
               "inet4/0 inet4/100/1 inet4/100/2 inet4/32766 inet4/32767 inet6/0 inet6/32766");
  auto one = at<rpc::RuleStatusSpec>(records, "inet4/100/1");
  EXPECT_STREQ(one.getRule().cStr(), "from 10.1.0.0/16 fwmark 0x1 iif eth0 lookup 5");
  EXPECT_STREQ(kj::str(one.getFamily(), ' ', one.getPriority(), ' ', one.getSource(), ' ',
                       one.getFwMark(), '/', one.getFwMask(), ' ', one.getInLinkName(), ' ',
                       one.getAction(), ' ', one.getTable(), ' ', one.getProtocol())
                   .cStr(),
               "inet4 100 10.1.0.0/16 1/4294967295 eth0 lookup 5 talos");
  auto two = at<rpc::RuleStatusSpec>(records, "inet4/100/2");
  EXPECT_STREQ(kj::str(two.getDestination(), ' ', two.getOutLinkName(), ' ', two.getAction(), ' ',
                       two.getTarget(), two.getTable())
                   .cStr(),
               "10.2.0.0/16 eth1 goto 200");
  EXPECT_STREQ(at<rpc::RuleStatusSpec>(records, "inet6/32766").getTable().cStr(), "main");

  // A rule of each family does not make a duplicate; a VRF rule's table is the VRF's table.
  Rule vrf{.priority = 7, .table = 0}, six{.family = AF_INET6, .priority = 7, .table = 7};
  vrf.l3mdev = true;
  kj::Vector<Rule> both;
  both.add(vrf);
  both.add(six);
  auto families = ruleStatuses(shownRules(kj::mv(both)));
  EXPECT_STREQ(ids(families).cStr(), "inet4/7 inet6/7");
  EXPECT_STREQ(at<rpc::RuleStatusSpec>(families, "inet4/7").getTable().cStr(), "");
}

// Catches: entries that `ip neigh` hides; a removed link without a name.
TEST(BystandersView, Neighbours) {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0");
  kj::Vector<Neighbour> there;
  auto router = entry(eth0, ip("fe80::1"), NUD_STALE);
  router.flags = NTF_ROUTER;
  router.protocol = kMark;
  there.add(router);
  there.add(entry(eth0, ip("10.5.0.1")));
  there.add(entry(eth0, ip("ff02::16"), NUD_NOARP));
  there.add(entry(eth0, ip("10.5.0.9"), NUD_NONE));
  there.add(Neighbour{.link = 99, .address = ip("10.5.0.3"), .state = NUD_FAILED});
  auto records = neighbourStatuses(shownNeighbours(kernel.links(), kj::mv(there)));
  EXPECT_STREQ(ids(records).cStr(), "eth0/10.5.0.1 eth0/fe80::1 link 99/10.5.0.3");
  auto one = at<rpc::NeighbourStatusSpec>(records, "eth0/fe80::1");
  EXPECT_STREQ(kj::str(one.getLinkName(), ' ', one.getLinkIndex(), ' ', one.getAddress(), ' ',
                       one.getHardwareAddress(), ' ', one.getState(), ' ', one.getFamily(), ' ',
                       one.getFlags()[0], ' ', one.getProtocol())
                   .cStr(),
               "eth0 2 fe80::1 02:00:00:00:00:01 stale inet6 router talos");
  EXPECT_STREQ(
      at<rpc::NeighbourStatusSpec>(records, "link 99/10.5.0.3").getHardwareAddress().cStr(), "");
}

// Catches: a store that grows with the network, and a cut list that looks complete.
TEST(BystandersView, NoMoreThanTheMost) {
  TestKernel kernel;
  unsigned eth0 = kernel.plug("eth0");
  for (size_t extra : {size_t(0), size_t(7)}) {
    kj::Vector<Neighbour> there;
    kj::Vector<Rule> rules;
    for (unsigned i = kMostShown + extra; i > 0; --i) {  // The kernel has no order.
      there.add(entry(eth0, numbered(i)));
      rules.add(Rule{.priority = i, .table = 5});
    }
    auto neighbours = neighbourStatuses(shownNeighbours(kernel.links(), kj::mv(there)));
    auto shown = ruleStatuses(shownRules(kj::mv(rules)));
    EXPECT_EQ(neighbours.size(), kMostShown + (extra > 0));
    EXPECT_EQ(shown.size(), kMostShown + (extra > 0));
    EXPECT_TRUE(neighbours.find("eth0/10.0.0.1"_kj) != nullptr);
    if (extra == 0) continue;
    EXPECT_TRUE(neighbours.find(kj::str("eth0/", numbered(kMostShown + 1))) == nullptr);
    EXPECT_STREQ(at<rpc::NeighbourStatusSpec>(neighbours, "more").getState().cStr(),
                 "7 more not shown");
    EXPECT_STREQ(at<rpc::RuleStatusSpec>(shown, "more").getRule().cStr(), "7 more not shown");
  }
}

class BystandersTest : public ModelMachine {
 public:
  ~BystandersTest() noexcept override {}

 protected:
  kj::Own<netlink::Monitor> monitor = kernel.monitor(RuleNeighbourReporter::kSubjects);
  kj::Maybe<Records> rules, neighbours;
  unsigned publishedRules = 0, publishedNeighbours = 0, attempts = 0;
  bool broken = false;
  RuleNeighbourReporter ruleReporter{
      kernel, *monitor, timer, [this](RuleNeighbourReporter::Report report) {
        ++attempts;
        KJ_REQUIRE(!broken, "store is away");
        keep(kj::mv(report.rules), rules, publishedRules);
        keep(kj::mv(report.neighbours), neighbours, publishedNeighbours);
        return kj::Promise<void>(kj::READY_NOW);
      }};
  kj::Promise<void> running = nullptr;

  static void keep(kj::Maybe<Records> reports, kj::Maybe<Records>& last, unsigned& count) {
    KJ_IF_MAYBE (there, reports) {
      last = kj::mv(*there);
      ++count;
    }
  }
  void start() {
    running = watched(ruleReporter.run());
    settle();
  }
  void set(Neighbour neighbour) { kernel.put(kj::mv(neighbour)); }
  kj::String shown() { return ids(KJ_ASSERT_NONNULL(neighbours)); }
};

// Catches: a store that is written at every change of a state; there may be thousands.
TEST_F(BystandersTest, AFlappingNeighbourIsWrittenAtMostOnceASecond) {
  start();
  EXPECT_EQ(publishedRules, 1u);
  EXPECT_EQ(publishedNeighbours, 1u);
  for (unsigned i = 0; i < 1000; ++i) {
    set(entry(eth0, ip("10.5.0.1"), i % 2 == 0 ? NUD_REACHABLE : NUD_STALE));
    set(entry(eth0, ip("10.5.0.2"), i % 3 == 0 ? NUD_REACHABLE : NUD_STALE));
    pass(10 * kj::MILLISECONDS);
  }
  EXPECT_GE(publishedNeighbours, 5u);
  EXPECT_LE(publishedNeighbours, 11u);
  EXPECT_EQ(publishedRules, 1u);
  // The last state is reported although nothing changes any more.
  set(entry(eth0, ip("10.5.0.1"), NUD_FAILED));
  pass(2 * kj::SECONDS);
  pass(2 * kj::SECONDS);
  EXPECT_STREQ(at<rpc::NeighbourStatusSpec>(KJ_ASSERT_NONNULL(neighbours), "eth0/10.5.0.1")
                   .getState()
                   .cStr(),
               "failed");
  auto before = attempts;
  pass(3600 * kj::SECONDS);
  EXPECT_EQ(attempts, before);
}

// Catches: a large network that keeps the store busy: a thousand records a second.
TEST_F(BystandersTest, ManyThatChangeAreWrittenMoreSlowly) {
  constexpr unsigned kMany = 1000, kSeconds = 50;
  for (unsigned i = 1; i <= kMany; ++i) set(entry(eth0, numbered(i)));
  start();
  publishedNeighbours = 0;
  for (unsigned second = 0; second < kSeconds; ++second) {
    for (unsigned i = 1; i <= kMany; ++i) {
      auto changed = entry(eth0, numbered(i));
      changed.hardwareAddress.back() = second;
      set(changed);
    }
    pass(1 * kj::SECONDS);
  }
  EXPECT_GE(publishedNeighbours, 2u);
  EXPECT_LE(publishedNeighbours * kMany, kSeconds * 100);
}

// Catches: rules that keep the store busy; a list that takes long to read although it hardly
// changes; a pause that grows without end.
TEST_F(BystandersTest, ALongListIsLookedAtMoreSlowly) {
  constexpr unsigned kMany = 4000, kSeconds = 30;
  for (unsigned i = 1; i <= kMany; ++i) set(entry(eth0, numbered(i)));
  start();
  publishedNeighbours = 0;
  auto flap = [&](unsigned second) {
    auto changed = entry(eth0, numbered(1));
    changed.hardwareAddress.back() = 2 + second;
    set(changed);
    pass(1 * kj::SECONDS);
  };
  for (unsigned second = 0; second < kSeconds; ++second) flap(second);
  EXPECT_GE(publishedNeighbours, 2u);
  EXPECT_LE(publishedNeighbours, kSeconds / 3 + 1);  // a second, and two for reading

  for (unsigned i = 1; i <= kMany; ++i) kernel.put(Rule{.priority = i, .table = 7});
  pass(60 * kj::SECONDS);
  publishedRules = 0;
  for (unsigned second = 0; second < 130; ++second) {  // All neighbours are written: 40 s and more.
    kernel.put(Rule{.priority = 1, .table = 100 + second});
    pass(1 * kj::SECONDS);
  }
  EXPECT_LE(publishedRules, 130u / 40);
  for (unsigned i = 0; i < 3; ++i) pass(60 * kj::SECONDS);  // It waits for the kernel.
  for (unsigned i = 1; i <= kMany; ++i) set(entry(eth0, numbered(i), NUD_STALE));
  kernel.put(Rule{.priority = 6000, .table = 7});
  auto before = attempts;
  pass(60 * kj::SECONDS);
  EXPECT_EQ(attempts, before + 1);
  set(entry(eth0, numbered(1), NUD_FAILED));
  pass(60 * kj::SECONDS);  // All records of both would take twice 40 s.
  EXPECT_EQ(attempts, before + 2);
}

// Catches: a list that is cut without a log line, or with a line each time.
TEST_F(BystandersTest, LogsOnceThatAListWasCut) {
  for (unsigned i = 1; i <= kMostShown + 1; ++i) set(entry(eth0, numbered(i)));
  testing::internal::CaptureStderr();
  start();
  for (unsigned i = 0; i < 3; ++i) {
    set(entry(eth0, numbered(1), i % 2 == 0 ? NUD_STALE : NUD_REACHABLE));
    pass(60 * kj::SECONDS);
  }
  std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(publishedNeighbours, 4u);
  auto first = log.find("too many rules or neighbours");
  ASSERT_NE(first, log.npos);
  EXPECT_EQ(log.find("too many rules or neighbours", first + 1), log.npos);
}

// Catches: rules, new link names and lost notices that are not reported.
TEST_F(BystandersTest, EverythingThatItShowsIsFollowed) {
  set(entry(eth0, ip("10.5.0.1")));
  start();
  EXPECT_STREQ(shown().cStr(), "eth0/10.5.0.1");
  kernel.rename(eth0, "wan0");
  pass(2 * kj::SECONDS);
  EXPECT_STREQ(shown().cStr(), "wan0/10.5.0.1");
  pass(2 * kj::SECONDS);
  kernel.put(Rule{.priority = 7, .table = 7});
  pass(2 * kj::SECONDS);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(rules).find("inet4/7"_kj) != nullptr);
  pass(2 * kj::SECONDS);
  auto before = attempts;
  kernel.overrun();
  pass(2 * kj::SECONDS);
  EXPECT_EQ(attempts, before);  // Nothing differs.
  kernel.forgetNeighbours();
  pass(2 * kj::SECONDS);
  EXPECT_STREQ(shown().cStr(), "");
}

// Catches: a record that counts as reported although the store was unreachable; a store that is
// hammered.
TEST_F(BystandersTest, ReportsLaterWhatTheStoreMissed) {
  broken = true;
  start();
  for (unsigned i = 0; i < 300; ++i) pass(1 * kj::SECONDS);
  EXPECT_GE(attempts, 5u);
  EXPECT_LE(attempts, 15u);
  broken = false;
  for (unsigned i = 0; i < 61 && neighbours == nullptr; ++i) pass(1 * kj::SECONDS);
  EXPECT_EQ(publishedRules, 1u);
  EXPECT_EQ(publishedNeighbours, 1u);
  // The next retries come as often as the first.
  pass(2 * kj::SECONDS);
  broken = true;
  attempts = 0;
  set(entry(eth0, ip("10.5.0.1")));
  for (unsigned i = 0; i < 5; ++i) pass(1 * kj::SECONDS);
  EXPECT_GE(attempts, 2u);
}

// Catches: an unreadable list that stops all later reports.
TEST(BystandersLoop, AKernelThatCannotBeReadIsReadLater) {
  struct Sick final : TestKernel {
    bool sick = true;
    kj::Vector<Rule> rules() override {
      KJ_REQUIRE(!sick, "no memory");
      return TestKernel::rules();
    }
  } kernel;
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  auto monitor = kernel.monitor(RuleNeighbourReporter::kSubjects);
  unsigned reports = 0;
  RuleNeighbourReporter ruleReporter(kernel, *monitor, timer, [&](RuleNeighbourReporter::Report) {
    ++reports;
    return kj::Promise<void>(kj::READY_NOW);
  });
  auto running = ruleReporter.run().eagerlyEvaluate(
      [](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  auto pass = [&] {
    scope.poll();
    timer.advanceTo(timer.now() + 60 * kj::SECONDS);
    scope.poll();
  };
  pass();
  EXPECT_EQ(reports, 0u);
  kernel.sick = false;
  pass();
  EXPECT_EQ(reports, 1u);
}

}  // namespace
}  // namespace talos::networkd
