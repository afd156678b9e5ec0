#include "machined/config/controllers/time-status-controller.h"

#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

struct TimeStatusTest : public StoreTest {
  ~TimeStatusTest() noexcept override {}
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kj::String log = kj::str("");
  bool present = false, disabled = false, beforeConfig = false;
  kj::Vector<kj::String> servers;
  std::string requested;  // the last request to the service
  kj::StringPtr bootTimeout = "";
  int64_t timeoutSeconds = -1;  // the last limit of the wait
  uint64_t steps = 0;
  kj::StringPtr problem = "";
  kj::Own<ControllerRuntime> runtime;
  kj::Maybe<kj::Own<capnp::MallocMessageBuilder>> built;  // the config

  void start(bool container = false) {
    runtime = kj::heap<ControllerRuntime>(
        store, [this](kj::StringPtr line) { log = kj::str(log, line); }, timer, clock,
        [] { return 0.5; });
    TimeStatusController::Dependencies deps;
    deps.container = container;
    deps.beforeConfig = beforeConfig;
    deps.readConfig = [this](Store&) -> kj::Maybe<config::Config::Reader> {
      if (!present) return nullptr;
      auto& message = *built.emplace(kj::heap<capnp::MallocMessageBuilder>());
      auto root = message.initRoot<config::Config>();
      auto time = root.getMachine().getTime();
      time.setDisabled(disabled);
      time.setBootTimeout(bootTimeout);
      auto list = time.initServers(servers.size());
      for (auto i : kj::indices(servers)) list.set(i, servers[i]);
      return root.asReader();
    };
    deps.keepTime = [this](kj::Array<kj::String> s) {
      requested = kj::str("keep ", kj::strArray(s, ",")).cStr();
    };
    deps.setBootTimeout = [this](kj::Duration limit) { timeoutSeconds = limit / kj::SECONDS; };
    deps.leaveAlone = [this](kj::StringPtr why) { requested = kj::str("leave: ", why).cStr(); };
    deps.seen = [this]() {
      return TimeStatusController::Seen{steps, kj::str("s"), kj::str("+1us"), kj::str(problem)};
    };
    runtime->add(kj::heap<TimeStatusController>(kj::mv(deps)));
    scope.poll();
  }
  void poke() {
    runtime->poke("v1alpha1.TimeStatusController");
    scope.poll();
  }
  void timed(bool healthy) {
    putRecord<rpc::ServiceSpec>(store, "timed", [&](auto spec) {
      spec.setRunning(true);
      spec.setHealthy(healthy);
    });
    scope.poll();
  }
  // Returns "synced epoch 1 s +1us: problem".
  std::string status() {
    auto s = KJ_ASSERT_NONNULL(store.tryGet<rpc::TimeStatusSpec>("node"));
    return kj::str(s.getSynced() ? "synced" : "not", s.getSyncDisabled() ? " disabled" : "",
                   " epoch ", s.getEpoch(), " ", s.getServer(), " ", s.getOffset(), ": ",
                   s.getProblem())
        .cStr();
  }
};

// Catches: a status that does not follow the service, the default server before the user's server.
TEST_F(TimeStatusTest, FollowsConfigAndService) {
  start();
  EXPECT_EQ(status(), "not epoch 0 s +1us: no machine config yet");
  EXPECT_EQ(requested, "");
  present = true;
  problem = "no answer";
  poke();
  EXPECT_EQ(requested, "keep pool.ntp.org");
  EXPECT_EQ(status(), "not epoch 0 s +1us: no answer");
  servers.add(kj::str("a"));
  servers.add(kj::str("b"));
  problem = "";
  timed(true);
  EXPECT_EQ(requested, "keep a,b");
  EXPECT_EQ(status(), "synced epoch 0 s +1us: ");
  timed(false);
  EXPECT_EQ(status(), "not epoch 0 s +1us: ");
}

// Catches: a wrong clock with which the config server's certificate is not valid; a machine that
// keeps using the default servers after it has a config.
TEST_F(TimeStatusTest, BeforeAConfigByHttps) {
  beforeConfig = true;
  start();
  EXPECT_EQ(requested, "keep pool.ntp.org");
  present = disabled = true;
  poke();
  EXPECT_EQ(requested, "leave: machine.time.disabled");
}

// Catches: a limit of the wait for the time that never reaches the services, or outlives its key.
TEST_F(TimeStatusTest, PassesTheBootTimeoutOn) {
  present = true;
  start();
  EXPECT_EQ(timeoutSeconds, 0);
  bootTimeout = "2m";
  poke();
  EXPECT_EQ(timeoutSeconds, 120);
  bootTimeout = "";
  poke();
  EXPECT_EQ(timeoutSeconds, 0);
}

// Catches: services that wait for the time, on a machine that never synchronises its clock.
TEST_F(TimeStatusTest, DisabledCountsAsSynchronised) {
  present = disabled = true;
  start();
  EXPECT_EQ(requested, "leave: machine.time.disabled");
  EXPECT_EQ(status(), "synced disabled epoch 0  : ");
  disabled = false;
  poke();
  EXPECT_EQ(requested, "keep pool.ntp.org");
  EXPECT_EQ(status(), "not epoch 0 s +1us: ");
}

TEST_F(TimeStatusTest, AContainerLeavesTheClockToItsHost) {
  present = true;
  start(true);
  EXPECT_EQ(requested, "leave: the clock is the host's");
  EXPECT_EQ(status(), "synced disabled epoch 0  : ");
}

// Catches: an epoch that decreases, so that a client which compares epochs misses a step.
TEST_F(TimeStatusTest, TheEpochOutlivesTheBrain) {
  present = true;
  steps = 2;
  start();
  EXPECT_EQ(status(), "not epoch 2 s +1us: ");
  runtime = nullptr;
  steps = 0;
  start();
  EXPECT_EQ(status(), "not epoch 2 s +1us: ");
  steps = 1;
  poke();
  EXPECT_EQ(status(), "not epoch 3 s +1us: ");
}

}  // namespace
}  // namespace talos::machined
