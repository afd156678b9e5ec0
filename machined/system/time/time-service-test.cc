#include "machined/system/time/time-service.h"

#include <capnp/message.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/testing/virtual-time.h"
#include "machined/confined/parser/test-direct-foreign.h"
#include "machined/process1/test-process1.h"
#include "machined/services/service-lifecycle.h"
#include "machined/system/time/test-time-model.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

class TimeServiceTest : public testing::Test, public kj::Clock {
 protected:
  kj::Date now() const override { return time.truth(); }

  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  ModelTime time;
  ModelClock clock{time};
  ModelNetwork network{time, clock};
  FakeMachine machine;
  DirectForeign foreign;
  uint64_t nonces = 1000;
  struct Brain {
    kj::Own<FakeProcess1> process1;
    kj::Own<TimeService> service;
    kj::Own<Supervisor> supervisor;
    ~Brain() noexcept(false) { supervisor = nullptr; }
  };
  kj::Own<Brain> brain;

  TimeServiceTest() { startBrain(); }
  ~TimeServiceTest() noexcept override { brain = nullptr; }

  void startBrain() {
    brain = nullptr;
    brain = kj::heap<Brain>();
    brain->process1 = kj::heap<FakeProcess1>(machine);
    brain->supervisor = kj::heap<Supervisor>(
        Supervisor::Dependencies{.process1 = *brain->process1,
                                 .timer = time.timer,
                                 .clock = *this,
                                 .random = []() { return 0.0; },
                                 .output = [](kj::StringPtr) -> kj::Promise<kj::AutoCloseFd> {
                                   return kj::AutoCloseFd(open("/dev/null", O_WRONLY | O_CLOEXEC));
                                 },
                                 .announce = [](rpc::ServiceStateEvent::Reader) {}});
    ServiceDefinition networkd;
    networkd.id = kj::str("networkd");
    networkd.command = kj::str("networkd");
    networkd.argv = kj::arr(kj::str("networkd"));
    brain->supervisor->load(kj::mv(networkd));
    brain->service = kj::heap<TimeService>(
        *brain->supervisor, TimeFollower::Dependencies{.timer = time.timer,
                                                       .clock = clock,
                                                       .network = network,
                                                       .random = []() { return 0.5; },
                                                       .nonce = [this]() { return ++nonces; },
                                                       .log = [](kj::StringPtr) {},
                                                       .changed = []() {},
                                                       .stepped = []() {},
                                                       .foreign = foreign});
  }
  void advance(kj::Duration d) { talos::advance(time.timer, scope, d); }
  void keep(kj::StringPtr server) { brain->service->enable(kj::arr(kj::str(server))); }
  // Returns "Running OK", "Running: why", "none".
  std::string shown() {
    auto& supervisor = *brain->supervisor;
    bool there = false;
    for (auto& id : supervisor.ids()) there = there || id == kTimed;
    if (!there) return "none";
    capnp::MallocMessageBuilder scratch;
    auto s = scratch.initRoot<rpc::Service>();
    supervisor.fill(kTimed, s);
    auto h = s.getHealth();
    auto health = kj::str(h.getHealthy() ? kj::str(" OK") : kj::str(": ", h.getLastMessage()));
    if (h.getUnknown()) health = kj::str(" ?");
    return kj::str(nameOf(s.getState()), health).cStr();
  }
};

// Catches: queries before the network is up; a health without the reason why there is no time; a
// service that continues with its old servers.
TEST_F(TimeServiceTest, ItsHealthIsTheFirstAnswer) {
  network.servers["10.5.0.1"];
  network.servers["10.5.0.9"].silent = true;
  keep("10.5.0.9");
  advance(3 * kj::SECONDS);
  EXPECT_EQ(shown(), "Waiting ?");
  EXPECT_EQ(network.servers["10.5.0.9"].queries.size(), 0);
  brain->supervisor->start("networkd");
  advance(3 * kj::SECONDS);
  EXPECT_THAT(shown(), HasSubstr("Running: 10.5.0.9: no answer within "));
  EXPECT_FALSE(brain->supervisor->isAwaited(kTimed));
  keep("10.5.0.1");
  advance(6 * kj::SECONDS);
  EXPECT_EQ(shown(), "Running OK");
  EXPECT_EQ(machine.spawns, 1) << "only networkd is a process";
}

// Catches: a service that exists although the config disables it, or that does not come back.
TEST_F(TimeServiceTest, ComesAndGoesWithTheConfig) {
  network.servers["10.5.0.1"];
  brain->supervisor->start("networkd");
  brain->service->disable("machine.time.disabled");
  EXPECT_EQ(shown(), "none");
  keep("10.5.0.1");
  advance(1 * kj::SECONDS);
  EXPECT_EQ(shown(), "Running OK");
  brain->service->disable("machine.time.disabled");
  advance(1 * kj::SECONDS);
  EXPECT_EQ(shown(), "none");
  EXPECT_FALSE(brain->service->state().synced);
  auto queries = network.servers["10.5.0.1"].queries.size();
  advance(3600 * kj::SECONDS);
  EXPECT_EQ(network.servers["10.5.0.1"].queries.size(), queries);
  keep("10.5.0.1");
  advance(1 * kj::SECONDS);
  EXPECT_EQ(shown(), "Running OK");
}

// Catches: a brain that does not keep the time although the config enables it again, because the
// old brain died while it was disabled, and this counts as a user's stop.
TEST_F(TimeServiceTest, ANewBrainBeginsWhatTheConfigHadEnded) {
  network.servers["10.5.0.1"];
  brain->supervisor->start("networkd");
  keep("10.5.0.1");
  advance(1 * kj::SECONDS);
  brain->service->disable("machine.time.disabled");
  advance(1 * kj::SECONDS);
  startBrain();
  brain->service->disable("machine.time.disabled");
  keep("10.5.0.1");
  advance(1 * kj::SECONDS);
  EXPECT_EQ(shown(), "Running OK");
}

// Catches: a user's stop that a crash undoes; a running service that stays stopped after a crash.
TEST_F(TimeServiceTest, ANewBrainDoesAsTheOldOne) {
  network.servers["10.5.0.1"];
  brain->supervisor->start("networkd");
  keep("10.5.0.1");
  advance(1 * kj::SECONDS);
  startBrain();
  keep("10.5.0.1");
  EXPECT_THAT(shown(), testing::EndsWith(" ?")) << "nobody has asked yet";
  advance(1 * kj::SECONDS);
  EXPECT_EQ(shown(), "Running OK");
  auto stop = brain->supervisor->stop(kTimed);
  advance(1 * kj::SECONDS);
  startBrain();
  keep("10.5.0.1");
  advance(1 * kj::SECONDS);
  EXPECT_EQ(shown(), "Finished ?");
  brain->supervisor->start(kTimed);
  advance(1 * kj::SECONDS);
  EXPECT_EQ(shown(), "Running OK");
}

}  // namespace
}  // namespace talos::machined
