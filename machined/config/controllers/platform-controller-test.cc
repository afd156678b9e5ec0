#include "machined/config/controllers/platform-controller.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/resources/test-store.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

struct PlatformControllerTest : testing::Test {
  ~PlatformControllerTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  TestClock clock;
  Registry registry;
  Store store{registry, clock};
  unsigned attempts = 0;
  unsigned failures = 0;  // number of first attempts that fail
  kj::Maybe<kj::Own<PlatformController>> controller;
  unsigned woken = 0;

  unsigned reports = 0, refusals = 0;  // number of reports, and of the first ones that are refused

  void start(bool asks, bool reporting = false) {
    kj::Maybe<kj::Function<kj::Promise<void>()>> report;
    if (reporting) {
      report = [this]() -> kj::Promise<void> {
        if (reports++ < refusals) fail(ErrorKind::kUnavailable, "503 Busy");
        return kj::READY_NOW;
      };
    }
    kj::Maybe<kj::Function<kj::Promise<KnownFacts>()>> facts;
    if (asks) {
      facts = [this]() -> kj::Promise<KnownFacts> {
        if (attempts++ < failures) fail(ErrorKind::kUnavailable, "no answer");
        capnp::MallocMessageBuilder message;
        auto root = message.initRoot<rpc::PlatformFacts>();
        root.initMetadata().setRegion("eu-1");
        root.initNetwork().setHostname("n1");
        root.initExternalAddresses(1).set(0, "203.0.113.7");
        return KnownFacts(root.asReader());
      };
    }
    controller = kj::heap<PlatformController>(
        PlatformController::Dependencies{.platform = "aws",
                                         .timer = timer,
                                         .random = []() { return 0.5; },
                                         .facts = kj::mv(facts),
                                         .report = kj::mv(report)});
    KJ_ASSERT_NONNULL(controller)->wakeBy([this]() { ++woken; });
  }
  std::string reconciled() {
    KJ_ASSERT_NONNULL(controller)->reconcile(store).wait(scope);
    auto metadata = KJ_ASSERT_NONNULL(store.tryGet<rpc::PlatformMetadataSpec>(kPlatformMetadataId));
    auto text = kj::str(metadata.getPlatform(), " ", metadata.getRegion());
    KJ_IF_MAYBE (config, store.tryGet<rpc::PlatformConfigSpec>(kPlatformConfigId)) {
      text =
          kj::str(text, " ", config->getNetwork().getHostname(), " ", config->getExternalIPs()[0]);
    }
    return text.cStr();
  }
  void pass(kj::Duration time) {
    timer.advanceTo(timer.now() + time);
    scope.poll();
  }
};

// Catches: a query on a platform without a service, a platform name that is missing before the
// answer.
TEST_F(PlatformControllerTest, WithoutAService) {
  start(false);
  EXPECT_EQ(reconciled(), "aws ");
  EXPECT_EQ(woken, 0u);
}

// Catches: facts that are published only with the next change of another input; a service that is
// given up after an error, or queried again after its answer.
TEST_F(PlatformControllerTest, UntilItAnswers) {
  failures = 2;
  start(true);
  scope.poll();
  EXPECT_EQ(reconciled(), "aws ");
  pass(1 * kj::SECONDS);
  EXPECT_EQ(attempts, 2u);
  EXPECT_EQ(woken, 0u);
  pass(2 * kj::SECONDS);
  EXPECT_EQ(attempts, 3u);
  EXPECT_EQ(woken, 1u);
  EXPECT_EQ(reconciled(), "aws eu-1 n1 203.0.113.7");
  pass(1 * kj::HOURS);
  EXPECT_EQ(attempts, 3u);
}

// Catches: a network that is removed after a restart of the brain, and with it possibly the route
// to the service that would restore it.
TEST_F(PlatformControllerTest, AfterACrashTheRecordsStayUntilItAnswers) {
  start(true);
  scope.poll();
  EXPECT_EQ(reconciled(), "aws eu-1 n1 203.0.113.7");
  failures = attempts + 1;
  start(true);
  scope.poll();
  EXPECT_EQ(reconciled(), "aws eu-1 n1 203.0.113.7");
}

// Catches: a report that is given up after a refusal, that waits for the facts, or that is repeated
// for as long as the machine runs.
TEST_F(PlatformControllerTest, ReportsUntilItIsTaken) {
  failures = 100;
  refusals = 3;
  start(true, true);
  scope.poll();
  EXPECT_EQ(reports, 1u);
  for (auto pause : {1, 2, 4}) pass(pause * kj::SECONDS);
  EXPECT_EQ(reports, 4u);
  pass(1 * kj::HOURS);
  EXPECT_EQ(reports, 4u);
  EXPECT_GT(attempts, 4u);
}

}  // namespace
}  // namespace talos::machined
