#include "machined/system/time/time-follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/testing/virtual-time.h"
#include "machined/confined/parser/test-direct-foreign.h"
#include "machined/system/time/test-time-model.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct FollowerTest : public testing::Test {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  ModelTime time;
  ModelClock clock{time};
  ModelNetwork network{time, clock};
  double chance = 0.5;
  uint64_t nonces = 1000;
  std::vector<std::string> log;
  unsigned stepped = 0;
  DirectForeign foreign;
  TimeFollower follower{
      TimeFollower::Dependencies{.timer = time.timer,
                                 .clock = clock,
                                 .network = network,
                                 .random = [this]() { return chance; },
                                 .nonce = [this]() { return ++nonces; },
                                 .log = [this](kj::StringPtr line) { log.push_back(line.cStr()); },
                                 .changed = []() {},
                                 .stepped = [this]() { ++stepped; },
                                 .foreign = foreign}};
  kj::Promise<void> running = nullptr;
  ~FollowerTest() noexcept override {}

  void follow(std::initializer_list<const char*> names) {
    follower.setServers(
        KJ_MAP(n, kj::arrayPtr(names.begin(), names.size())) { return kj::str(n); });
    running = follower.run().eagerlyEvaluate(nullptr);
  }
  void advance(kj::Duration d) { talos::advance(time.timer, scope, d); }
  bool synced() const { return follower.state().synced; }
  std::string problem() const { return follower.state().problem.cStr(); }
  std::string server() const { return follower.state().server.cStr(); }
  kj::Duration wrongBy() const {
    auto w = clock.wrongBy();
    return w < 0 * kj::SECONDS ? w * -1 : w;
  }
};

// Catches: a start that waits for a whole volley, or for the minute of the usual interval.
TEST_F(FollowerTest, AGoodServerIsEnoughWithinAMoment) {
  network.servers["10.5.0.1"].offset = 40 * kj::MILLISECONDS;
  follow({"10.5.0.1"});
  auto whenSynced = follower.whenSynced();
  advance(20 * kj::MILLISECONDS);
  EXPECT_TRUE(synced());
  EXPECT_TRUE(whenSynced.poll(scope));
  EXPECT_EQ(server(), "10.5.0.1");
  EXPECT_THAT(clock.slews, IsEmpty());  // more rounds come first
  advance(10 * kj::SECONDS);
  EXPECT_EQ(network.servers["10.5.0.1"].queries.size(), 4);
  EXPECT_THAT(clock.slews, ElementsAre(40 * kj::MILLISECONDS));
  EXPECT_THAT(clock.steps, IsEmpty());
  EXPECT_EQ(problem(), "");
}

// Catches: a machine without a clock chip that waits for a second opinion, or steps twice.
TEST_F(FollowerTest, AClockThatIsYearsOffIsSetAtOnce) {
  network.servers["10.5.0.1"];
  clock.error = (kj::UNIX_EPOCH - time.truth());
  follow({"10.5.0.1"});
  advance(20 * kj::MILLISECONDS);
  EXPECT_TRUE(synced());
  EXPECT_EQ(stepped, 1);
  EXPECT_EQ(clock.now(), time.truth());
  advance(3600 * kj::SECONDS);
  EXPECT_EQ(clock.steps.size(), 1);
  EXPECT_EQ(follower.state().steps, 1);
  EXPECT_THAT(log, ElementsAre(HasSubstr("clock stepped by +1790000000")));
  // Counted answers stay counted, even if other servers are queried from now on.
  network.servers["10.5.0.2"];
  follower.setServers(kj::arr(kj::str("10.5.0.2")));
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(synced());
  EXPECT_EQ(follower.state().steps, 1);
}

// Catches: a wrong server of three that sets the clock.
TEST_F(FollowerTest, AFalsetickerIsOutvoted) {
  network.servers["a"].offset = -3600 * kj::SECONDS;
  network.servers["a"].there = network.servers["a"].back = 10 * kj::MICROSECONDS;
  network.servers["b"].offset = 20 * kj::MILLISECONDS;
  network.servers["c"].offset = 21 * kj::MILLISECONDS;
  network.servers["c"].there = 2 * kj::MILLISECONDS;
  network.servers["c"].back = 2 * kj::MILLISECONDS;
  follow({"a", "b", "c"});
  advance(10 * kj::SECONDS);
  EXPECT_TRUE(synced());
  EXPECT_EQ(server(), "c");
  EXPECT_THAT(clock.steps, IsEmpty());
  EXPECT_THAT(clock.slews, ElementsAre(21 * kj::MILLISECONDS));
  EXPECT_EQ(problem(), "a time server is wrong: a -3600.000s, b +20.000ms, c +21.000ms");
}

// Catches: one claim against another decided by chance.
TEST_F(FollowerTest, TwoThatDisagreeSetNothing) {
  network.servers["a"].offset = -3600 * kj::SECONDS;
  network.servers["b"];
  follow({"a", "b"});
  advance(3600 * kj::SECONDS);
  EXPECT_FALSE(synced());
  EXPECT_THAT(clock.steps, IsEmpty());
  EXPECT_EQ(problem(), "the time servers disagree: a -3600.000s, b 0");
  EXPECT_EQ(log.size(), 1) << "the same words each minute";
}

// Catches: a wrong server that is followed because it is the fastest; a machine that never gets the
// time because two of its three servers are gone.
TEST_F(FollowerTest, MostServersAreWaitedForButNotForEver) {
  network.servers["a"].silent = network.servers["b"].silent = true;
  network.servers["c"];
  follow({"a", "b", "c"});
  advance(3 * kj::SECONDS);
  EXPECT_FALSE(synced());
  EXPECT_EQ(
      problem(),
      "only 1 of 3 time servers answer: a: no answer within 1000 ms; b: no answer within 1000 ms");
  advance(20 * kj::SECONDS);
  EXPECT_TRUE(synced());
  EXPECT_EQ(server(), "c");
}

// Catches: a retry that floods; a retry that takes a minute from the start; an unlimited wait.
TEST_F(FollowerTest, ASilentServerIsAskedLaterAndLater) {
  auto& s = network.servers["10.5.0.1"];
  s.silent = true;
  follow({"10.5.0.1"});
  advance(300 * kj::SECONDS);
  ASSERT_GE(s.queries.size(), 8);
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < 8; ++i) gaps.push_back((s.queries[i] - s.queries[i - 1]) / kj::SECONDS);
  EXPECT_THAT(gaps, ElementsAre(2, 4, 7, 11, 19, 35, 67));
  EXPECT_EQ(problem(), "10.5.0.1: no answer within 3000 ms");
  s.silent = false;
  advance(70 * kj::SECONDS);
  EXPECT_TRUE(synced());
  EXPECT_EQ(problem(), "");
}

// Catches: an offset that is only the delay of a queue in one direction.
TEST_F(FollowerTest, TheAnswerWithTheLeastDelayCounts) {
  auto& s = network.servers["10.5.0.1"];
  s.offset = 50 * kj::MILLISECONDS;
  s.back = 200 * kj::MILLISECONDS;  // looks like -47.5 ms
  follow({"10.5.0.1"});
  advance(1 * kj::SECONDS);
  s.back = 5 * kj::MILLISECONDS;
  advance(2 * kj::SECONDS);
  s.back = 150 * kj::MILLISECONDS;
  advance(10 * kj::SECONDS);
  EXPECT_THAT(clock.slews, ElementsAre(50 * kj::MILLISECONDS));
  // Later there is one answer only, and an offset that a queue may have caused is ignored.
  s.back = 205 * kj::MILLISECONDS;
  advance(200 * kj::SECONDS);
  ASSERT_GE(clock.slews.size(), 2);
  for (size_t i = 1; i < clock.slews.size(); ++i) EXPECT_EQ(clock.slews[i], 0 * kj::SECONDS);
  EXPECT_THAT(clock.steps, IsEmpty());
}

// Catches: a public server that is queried more often than its operators accept, or hardly ever.
TEST_F(FollowerTest, PollsAreMinutesApart) {
  auto& s = network.servers["10.5.0.1"];
  clock.drift = 1000;  // 1 ppm
  chance = 0;
  follow({"10.5.0.1"});
  advance(10 * kj::SECONDS);
  s.queries.clear();
  advance(640 * kj::SECONDS);
  EXPECT_EQ(s.queries.size(), 10);
  chance = 0.999;
  advance(3600 * kj::SECONDS);
  s.queries.clear();
  advance(24 * kj::HOURS);
  EXPECT_GE(s.queries.size(), 24 * 3600 / 1087);
  EXPECT_LE(s.queries.size(), 24 * 3600 / 1000);
  EXPECT_LT(wrongBy(), 3 * kj::MILLISECONDS);
  EXPECT_EQ(clock.constants.front(), 2);
  EXPECT_EQ(clock.constants.back(), 10);  // of 2^10 s between corrections
}

// Catches: a single spike that sets the clock; a clock that stays wrong after another program set
// it.
TEST_F(FollowerTest, ALaterJumpIsLookedAtTwice) {
  auto& s = network.servers["10.5.0.1"];
  chance = 0;
  follow({"10.5.0.1"});
  advance(10 * kj::SECONDS);
  auto queries = s.queries.size();
  s.back = 900 * kj::MILLISECONDS;  // once
  advance(62 * kj::SECONDS);
  ASSERT_EQ(s.queries.size(), queries + 1);
  s.back = 5 * kj::MILLISECONDS;
  advance(60 * kj::SECONDS);
  EXPECT_THAT(clock.steps, IsEmpty());
  clock.error = clock.error + 3600 * kj::SECONDS;
  advance(130 * kj::SECONDS);
  EXPECT_THAT(clock.steps, ElementsAre(-3600 * kj::SECONDS));
  EXPECT_EQ(stepped, 1);
  EXPECT_TRUE(synced());
}

// Catches: a server that requests fewer queries and does not get them.
TEST_F(FollowerTest, KissesOfDeathAreObeyed) {
  auto& s = network.servers["10.5.0.1"];
  chance = 0;
  follow({"10.5.0.1"});
  advance(10 * kj::SECONDS);
  s.kiss = "RATE";
  advance(64 * kj::SECONDS);
  EXPECT_EQ(problem(), "10.5.0.1: it asks for fewer queries (RATE)");
  EXPECT_TRUE(synced());
  s.queries.clear();
  advance(120 * kj::SECONDS);
  EXPECT_EQ(s.queries.size(), 0);
  advance(4000 * kj::SECONDS);
  EXPECT_LE(s.queries.size(), 6);
  s.kiss = "DENY";
  advance(2000 * kj::SECONDS);
  s.queries.clear();
  advance(24 * kj::HOURS);
  EXPECT_EQ(s.queries.size(), 0);
  EXPECT_EQ(problem(), "10.5.0.1: it refuses service (DENY)");
}

// Catches: a paused server that is taken for a new one, because another address of its name is dead
// and the name is looked up again.
TEST_F(FollowerTest, LookingUpAgainForgivesNothing) {
  network.dns["pool"] = {"1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"};
  for (auto& a : network.dns["pool"]) network.servers[a];
  auto& tired = network.servers["1.1.1.1"];
  tired.kiss = "RATE";
  network.servers["2.2.2.2"].silent = true;
  chance = 0;
  follow({"pool"});
  advance(120 * kj::SECONDS);
  EXPECT_TRUE(synced());
  EXPECT_GE(network.lookups, 2);
  EXPECT_EQ(tired.queries.size(), 1);
  advance(4000 * kj::SECONDS);
  EXPECT_LE(tired.queries.size(), 7);
}

// Catches: a name server that never answers and is waited for without a limit.
TEST_F(FollowerTest, LookingUpHasAnEnd) {
  network.dns["never"] = {"1.1.1.1"};
  network.dnsDelay["never"] = 24 * kj::HOURS;
  follow({"never"});
  advance(25 * kj::SECONDS);
  EXPECT_EQ(problem(), "cannot resolve \"never\" within 20 s");
  auto queries = follower.check(kj::str("never"));
  advance(6 * kj::SECONDS);
  ASSERT_TRUE(queries.poll(scope));
  auto failed = kj::runCatchingExceptions([&]() { queries.wait(scope); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failed)), "cannot resolve \"never\" within 5 s");
}

// Catches: a reply that anyone could have sent; a loop that a flood of replies keeps busy.
TEST_F(FollowerTest, ForgedRepliesAreNothing) {
  auto& s = network.servers["10.5.0.1"];
  s.forgeriesFirst = 5;
  follow({"10.5.0.1"});
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(synced());
  EXPECT_THAT(clock.steps, IsEmpty());
  s.forgeriesFirst = 1000000;
  advance(300 * kj::SECONDS);
  EXPECT_EQ(problem(), "10.5.0.1: too many unsolicited packets");
}

// Catches: a clock that is set between query and answer, which then counts as a delay.
TEST_F(FollowerTest, AClockSetMeanwhileSpoilsTheAnswer) {
  auto& s = network.servers["10.5.0.1"];
  s.there = s.back = 200 * kj::MILLISECONDS;
  for (auto by : {-3600 * kj::SECONDS, 3 * kj::SECONDS}) {
    running = nullptr;
    clock.steps.clear();
    follow({"10.5.0.1"});
    advance(100 * kj::MILLISECONDS);
    clock.error = clock.error + by;
    advance(400 * kj::MILLISECONDS);
    EXPECT_FALSE(synced());
    EXPECT_EQ(problem(), "10.5.0.1: another program set the clock during the query");
    EXPECT_THAT(clock.steps, IsEmpty());
    advance(2 * kj::SECONDS);
    EXPECT_THAT(clock.steps, ElementsAre(by * -1));
  }
}

// Catches: a pool that is looked up once for ever; a dead address that is kept; a wrong server in
// the pool.
TEST_F(FollowerTest, APoolIsSeveralServers) {
  network.dns["pool"] = {"1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4", "5.5.5.5"};
  for (auto& a : network.dns["pool"]) network.servers[a];
  network.servers["2.2.2.2"].offset = 10 * kj::SECONDS;
  follow({"pool"});
  advance(10 * kj::SECONDS);
  EXPECT_TRUE(synced());
  EXPECT_THAT(server(), testing::StartsWith("pool ("));
  EXPECT_EQ(network.servers["4.4.4.4"].queries.size(), 4);
  EXPECT_EQ(network.servers["5.5.5.5"].queries.size(), 0);
  // The first one has a spare address, which is used within the same poll or the next.
  network.servers["1.1.1.1"].silent = true;
  advance(3000 * kj::SECONDS);
  EXPECT_GE(network.servers["5.5.5.5"].queries.size(), 1);
  EXPECT_EQ(network.lookups, 1);
  // Three and more die: the name's present addresses are queried.
  network.dns["pool"] = {"6.6.6.6"};
  network.servers["6.6.6.6"];
  for (auto a : {"2.2.2.2", "3.3.3.3", "4.4.4.4", "5.5.5.5"}) network.servers[a].silent = true;
  advance(12000 * kj::SECONDS);
  EXPECT_EQ(server(), "pool (6.6.6.6)");
  EXPECT_EQ(problem(), "");
}

// Catches: a name with two addresses that counts twice; a family without a route because of which
// the name loses its vote.
TEST_F(FollowerTest, EachOfSeveralNamesHasOneVote) {
  network.dns["liar"] = {"1.1.1.1", "1.1.1.2"};
  network.servers["1.1.1.1"].offset = network.servers["1.1.1.2"].offset = 60 * kj::SECONDS;
  network.dns["dual"] = {"fd00::1", "2.2.2.2"};
  network.servers["fd00::1"].noRoute = true;
  network.servers["2.2.2.2"];
  network.servers["3.3.3.3"];
  follow({"liar", "dual", "3.3.3.3"});
  advance(20 * kj::MILLISECONDS);
  EXPECT_TRUE(synced());
  EXPECT_THAT(clock.steps, IsEmpty());
  EXPECT_EQ(network.servers["1.1.1.2"].queries.size(), 0);
}

// Catches: names that cannot be resolved, or resolve slowly, and delay the others.
TEST_F(FollowerTest, NamesThatFailAreTriedAgain) {
  network.dns["slow"] = {"1.1.1.1"};
  network.servers["1.1.1.1"];
  network.dnsDelay["slow"] = 15 * kj::SECONDS;
  network.servers["2.2.2.2"];
  network.servers["3.3.3.3"];
  follow({"slow", "2.2.2.2", "3.3.3.3"});
  advance(1100 * kj::MILLISECONDS);
  EXPECT_TRUE(synced());
  advance(200 * kj::SECONDS);
  EXPECT_GE(network.servers["1.1.1.1"].queries.size(), 1);

  follow({"nowhere"});
  advance(5 * kj::SECONDS);
  EXPECT_FALSE(synced());
  EXPECT_EQ(problem(), "cannot resolve \"nowhere\": no such name");
  network.dns["nowhere"] = {"1.1.1.1"};
  advance(10 * kj::SECONDS);
  EXPECT_EQ(server(), "nowhere (1.1.1.1)");
}

// Catches: new servers that are used at the next poll only, or never.
TEST_F(FollowerTest, NewServersAreAskedAtOnce) {
  network.servers["a"];
  network.servers["b"].offset = 50 * kj::MILLISECONDS;
  follow({"a"});
  advance(10 * kj::SECONDS);
  EXPECT_EQ(server(), "a");
  follower.setServers(kj::arr(kj::str("b")));
  advance(20 * kj::MILLISECONDS);
  EXPECT_TRUE(synced());
  EXPECT_EQ(server(), "b");
  auto queries = network.servers["b"].queries.size();
  follower.setServers(kj::arr(kj::str("b")));  // no change, so nothing is restarted
  advance(20 * kj::MILLISECONDS);
  EXPECT_EQ(network.servers["b"].queries.size(), queries);
  follower.setServers(kj::arr(kj::str("c")));
  advance(20 * kj::MILLISECONDS);
  EXPECT_FALSE(synced());
}

// Catches: a stopped service that still reports itself synchronised, or still sends queries.
TEST_F(FollowerTest, StoppedIsStopped) {
  network.servers["a"];
  follow({"a"});
  advance(10 * kj::SECONDS);
  ASSERT_TRUE(synced());
  running = nullptr;
  EXPECT_FALSE(synced());
  EXPECT_EQ(server(), "");
  auto queries = network.servers["a"].queries.size();
  advance(3600 * kj::SECONDS);
  EXPECT_EQ(network.servers["a"].queries.size(), queries);
}

// Catches: a user's query without a result, or one that changes the clock.
TEST_F(FollowerTest, CheckAsksOnce) {
  network.servers["a"];
  network.servers["b"].offset = 7 * kj::SECONDS;
  network.servers["c"].silent = true;
  network.servers["d"].kiss = "DENY";
  network.dns["e"] = {"2.2.2.2"};
  network.servers["2.2.2.2"];
  follow({"a"});
  auto ask = [&](kj::StringPtr name) {
    auto promise = follower.check(kj::str(name))
                       .then([](TimeFollower::Answer a) {
                         return kj::str(a.server, " ", ntp::showOffset(a.remote - a.local));
                       })
                       .catch_([](kj::Exception&& e) { return messageOf(e); });
    advance(6 * kj::SECONDS);
    EXPECT_TRUE(promise.poll(scope));
    return std::string(promise.wait(scope).cStr());
  };
  EXPECT_EQ(ask(""), "a 0");
  EXPECT_EQ(ask("b"), "b +7.000s");
  EXPECT_EQ(ask("c"), "c: no answer within 5000 ms");
  EXPECT_EQ(ask("d"), "d: it refuses service (DENY)");
  EXPECT_EQ(ask("e"), "e (2.2.2.2) 0");
  EXPECT_EQ(ask("x"), "cannot resolve \"x\": no such name");
  EXPECT_THAT(clock.steps, IsEmpty());
}

}  // namespace
}  // namespace talos::machined
