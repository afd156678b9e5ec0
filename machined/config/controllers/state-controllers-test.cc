// The controllers whose inputs come from the brain itself: services and the machine's state.
#include "machined/config/controllers/state-controllers.h"

#include "machined/config/controllers/test-machine-config.h"
#include "machined/resources/test-store.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"

namespace talos::machined {
namespace {

struct StateTest : public StoreTest {
  ~StateTest() noexcept override {}
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kj::String log = kj::str("");
  ControllerRuntime runtime{store, [this](kj::StringPtr line) { log = kj::str(log, line); }, timer,
                            clock, [] { return 0.5; }};
  FakeMachine machine;
  FakeProcess1 process1{machine};
  Events events{clock, process1};
  kj::StringPtr sick = "none";
  kj::Maybe<ServiceController&> controller;

  void event(kj::StringPtr id, rpc::ServiceState state) {
    events.publish([&](rpc::Event::Builder event) {
      auto service = event.initService();
      service.setService(id);
      service.setState(state);
    });
  }
  // Returns "apid+ networkd-" with + for healthy.
  kj::String services() {
    kj::Vector<kj::String> parts;
    for (auto spec : store.list<rpc::ServiceSpec>()) {
      EXPECT_TRUE(spec.getRunning());
      parts.add(kj::str(spec.id(), spec.getHealthy() ? "+" : "-"));
    }
    return kj::strArray(parts, " ");
  }
  void addServices() {
    auto made =
        kj::heap<ServiceController>(events, [this](kj::StringPtr id) { return id != sick; });
    controller = *made;
    runtime.add(kj::mv(made));
    scope.poll();
  }
};

TEST_F(StateTest, ServicesThatRunAreShownAndOthersAreNot) {
  event("apid", rpc::ServiceState::RUNNING);
  event("networkd", rpc::ServiceState::WAITING);
  addServices();
  EXPECT_EQ(services(), "apid+") << "what was published before the controller is missing";
  sick = "networkd";
  event("networkd", rpc::ServiceState::RUNNING);
  scope.poll();
  EXPECT_EQ(services(), "apid+ networkd-");
  sick = "";
  event("networkd", rpc::ServiceState::RUNNING);  // its health changed
  scope.poll();
  EXPECT_EQ(services(), "apid+ networkd+");
  // Catches: data that is removed while its service is still exiting.
  sick = "apid";
  event("apid", rpc::ServiceState::STOPPING);
  scope.poll();
  EXPECT_EQ(services(), "apid- networkd+");
  event("apid", rpc::ServiceState::FINISHED);
  scope.poll();
  EXPECT_EQ(services(), "networkd+");
  EXPECT_TRUE(kj::StringPtr(log).endsWith("controller starting\n")) << log.cStr();
}

// Events outlive the runtime when the brain shuts down.
TEST_F(StateTest, EventsAfterTheControllerIsGoneAreHarmless) {
  {
    ControllerRuntime shortLived(store, [](kj::StringPtr) {}, timer, clock, [] { return 0.5; });
    shortLived.add(kj::heap<ServiceController>(events, [](kj::StringPtr) { return true; }));
    scope.poll();
  }
  event("apid", rpc::ServiceState::RUNNING);
  scope.poll();
  EXPECT_EQ(services(), "");
}

TEST_F(StateTest, TheMachineIsReadyWhenItRunsWithoutProblems) {
  MachineStatusController::State state{kj::str("booting"), {}};
  kj::Maybe<kj::Date> revertsAt;
  addServices();
  runtime.add(kj::heap<MachineStatusController>(
      [&] {
        MachineStatusController::State copy{kj::str(state.stage), {}};
        for (auto& problem : state.problems) copy.problems.add(kj::str(problem));
        copy.revertsAt = revertsAt;
        return copy;
      },
      [&](kj::StringPtr id) { return KJ_ASSERT_NONNULL(controller).isStopping(id); }));
  auto shown = [&] {
    scope.poll();
    auto spec = KJ_ASSERT_NONNULL(store.tryGet<rpc::MachineStatusSpec>("machine"));
    return kj::str(spec.getStage(), spec.getReady() ? " ready" : "", " [",
                   kj::strArray(spec.getProblems(), ", "), "]", spec.getRevertsAt());
  };
  EXPECT_EQ(shown(), "booting []");
  state.stage = kj::str("running");
  runtime.poke("runtime.MachineStatusController");
  EXPECT_EQ(shown(), "running ready []");
  sick = "apid";
  event("apid", rpc::ServiceState::RUNNING);
  EXPECT_EQ(shown(), "running [service apid is not healthy]");
  sick = "";
  event("apid", rpc::ServiceState::RUNNING);
  EXPECT_EQ(shown(), "running ready []");
  // Catches: a machine that counts as not ready whenever an operator restarts a service.
  sick = "apid";
  event("apid", rpc::ServiceState::STOPPING);
  EXPECT_EQ(shown(), "running ready []");
  EXPECT_EQ(services(), "apid-");
  event("apid", rpc::ServiceState::RUNNING);  // and does not come up
  event("networkd", rpc::ServiceState::STOPPING);
  EXPECT_EQ(shown(), "running [service apid is not healthy]");
  sick = "";
  event("apid", rpc::ServiceState::RUNNING);
  EXPECT_EQ(shown(), "running ready []");
  state.problems.add(kj::str("no machine config"));
  runtime.poke("runtime.MachineStatusController");
  EXPECT_EQ(shown(), "running [no machine config]");
  // The time is computed from two clocks and varies a little; the resource does not change unless a
  // clock was stepped.
  auto turn = [&](int seconds) {
    revertsAt = kj::UNIX_EPOCH + 1'800'000'000 * kj::SECONDS + seconds * kj::SECONDS;
    runtime.poke("runtime.MachineStatusController");
    return shown();
  };
  EXPECT_EQ(turn(0), "running [no machine config]2027-01-15T08:00:00Z");
  EXPECT_EQ(turn(1), "running [no machine config]2027-01-15T08:00:00Z");
  EXPECT_EQ(turn(60), "running [no machine config]2027-01-15T08:01:00Z");
  revertsAt = nullptr;
  runtime.poke("runtime.MachineStatusController");
  EXPECT_EQ(shown(), "running [no machine config]");
}

// Catches: a member that is published although its etcd is down, or whose ID has another form.
TEST_F(ConfigTest, TheLocalMemberOfEtcdIsThereWhileItIsHealthy) {
  auto shown = [&]() -> kj::String {
    poll();
    KJ_IF_MAYBE (member, store.tryGet<rpc::LocalEtcdMemberSpec>("local")) {
      return kj::str(member->getMemberId());
    }
    return kj::str("none");
  };
  runtime.add(localEtcdMemberController(deps));
  EXPECT_EQ(shown(), "none");
  put<rpc::EtcdStatusSpec>("etcd", [](auto spec) { spec.setMember("abc123"); });
  EXPECT_EQ(shown(), "none");
  put<rpc::ServiceSpec>("etcd", [](auto spec) { spec.setHealthy(true); });
  EXPECT_EQ(shown(), "0000000000abc123");
  put<rpc::ServiceSpec>("etcd", [](auto spec) { spec.setHealthy(false); });
  EXPECT_EQ(shown(), "none");
}

}  // namespace
}  // namespace talos::machined
