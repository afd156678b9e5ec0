// Health checks of services by the supervisor.
#include "machined/services/test-supervisor.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Catches: health events without a change, a first check before its delay, "up" before the first
// good one.
TEST_F(SupervisorTest, OnlyTransitionsOfHealthAreEvents) {
  kj::Maybe<kj::String> problem = kj::str("connection refused");
  unsigned checks = 0;
  auto d = define("a");
  d.health = HealthCheck{[&]() -> kj::Promise<void> {
    checks++;
    KJ_IF_MAYBE (p, problem) return error(ErrorKind::kUnavailable, *p);
    return kj::READY_NOW;
  }};
  supervisor->load(kj::mv(d));
  supervisor->start("a");
  run();
  events.clear();
  EXPECT_FALSE(supervisor->isUp("a"));
  advance(999 * kj::MILLISECONDS);
  EXPECT_EQ(0u, checks);
  advance(1 * kj::MILLISECONDS + 10 * kj::SECONDS);
  EXPECT_EQ(3u, checks);
  EXPECT_THAT(events, ElementsAre("a Running Health check failed: connection refused"));
  problem = nullptr;
  advance(10 * kj::SECONDS);
  EXPECT_TRUE(supervisor->isUp("a"));
  problem = kj::str("status 500");
  advance(10 * kj::SECONDS);
  EXPECT_FALSE(supervisor->isUp("a"));
  EXPECT_THAT(events, ElementsAre("a Running Health check failed: connection refused",
                                  "a Running Health check successful",
                                  "a Running Health check failed: status 500"));
}

// Catches: a service that is up within a second and counts as unhealthy for five, a service that
// never comes up and is checked ten times a second for ever.
TEST_F(SupervisorTest, AServiceThatStartsOrFailsIsCheckedAgainSooner) {
  bool good = false;
  unsigned checks = 0;
  auto d = define("a");
  d.health = HealthCheck{.check = [&]() -> kj::Promise<void> {
                           checks++;
                           if (!good) return error(ErrorKind::kUnavailable, "no certificate yet");
                           return kj::READY_NOW;
                         },
                         .delay = 0 * kj::SECONDS,
                         .retry = 100 * kj::MILLISECONDS};
  supervisor->load(kj::mv(d));
  supervisor->start("a");
  run();
  capnp::MallocMessageBuilder m;
  auto shown = m.initRoot<rpc::Service>();
  supervisor->fill("a", shown);
  EXPECT_TRUE(shown.getChecked()) << "it is not up before that";
  advance(0 * kj::SECONDS);
  EXPECT_EQ(1u, checks);
  advance(100 * kj::MILLISECONDS);
  EXPECT_EQ(2u, checks);
  advance(149 * kj::MILLISECONDS);
  EXPECT_EQ(2u, checks);
  advance(1 * kj::MILLISECONDS);
  EXPECT_EQ(3u, checks);
  advance(60 * kj::SECONDS);
  checks = 0;
  advance(50 * kj::SECONDS);
  EXPECT_EQ(10u, checks);
  good = true;
  machine.exit("a", 0);
  advance(2 * kj::SECONDS);
  checks = 0;
  advance(10 * kj::SECONDS);
  EXPECT_EQ(2u, checks);
  good = false;
  checks = 0;
  while (checks == 0) advance(1 * kj::MILLISECONDS);
  advance(475 * kj::MILLISECONDS);  // 100, 150 and 225 ms
  EXPECT_EQ(4u, checks);
}

// Catches: a check that hangs and with it the whole health loop.
TEST_F(SupervisorTest, AHealthCheckThatHangsIsBad) {
  auto d = define("a");
  d.health = HealthCheck{[]() -> kj::Promise<void> { return kj::NEVER_DONE; }};
  supervisor->load(kj::mv(d));
  supervisor->start("a");
  advance(1500 * kj::MILLISECONDS);
  EXPECT_EQ("a Running Health check failed: no answer within 500 ms", events.back());
}

// Catches: a health result of a service that has just been stopped.
TEST_F(SupervisorTest, ACheckThatEndsWithTheStopReportsNothing) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  auto d = define("a");
  d.health = HealthCheck{[&]() { return kj::mv(paf.promise); }};
  supervisor->load(kj::mv(d));
  supervisor->start("a");
  advance(1 * kj::SECONDS);
  paf.fulfiller->fulfill();
  auto stopped = supervisor->stop("a");
  EXPECT_TRUE(done(stopped));
  EXPECT_THAT(events, testing::Not(testing::Contains(HasSubstr("Health check"))));
}

// Catches: health of the dead process that is shown for the new one.
TEST_F(SupervisorTest, ARestartForgetsHealth) {
  auto d = define("a");
  d.health = HealthCheck{[]() -> kj::Promise<void> { return kj::READY_NOW; }};
  supervisor->load(kj::mv(d));
  supervisor->start("a");
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(supervisor->isUp("a"));
  machine.exit("a", 0);
  run();
  EXPECT_FALSE(supervisor->isUp("a"));
  advance(1 * kj::SECONDS);
  EXPECT_TRUE(supervisor->isUp("a"));
}

}  // namespace
}  // namespace talos::machined
