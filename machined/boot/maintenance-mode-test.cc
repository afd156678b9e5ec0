#include "machined/boot/maintenance-mode.h"

#include <fcntl.h>

#include "machined/config/test-config-manager.h"

namespace talos::machined {
namespace {

// Stands for the controller of certificates: counts its runs.
class Certificates final : public Controller {
 public:
  explicit Certificates(unsigned& runs) : runs(runs) {}
  kj::StringPtr name() const override { return "secrets.ApiController"; }
  kj::Array<Input> inputs() const override { return nullptr; }
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store&) override {
    ++runs;
    return kj::READY_NOW;
  }

 private:
  unsigned& runs;
};

struct MaintenanceModeTest : ConfigManagerTest {
  ~MaintenanceModeTest() noexcept override {}
  unsigned looked = 0;

  // The parts of a brain besides its config manager.
  struct Rest {
    Supervisor supervisor;
    ControllerRuntime controllers;
    MachineStatus status{[]() {}};
    MaintenanceMode mode;
    Rest(MaintenanceModeTest& test)
        : supervisor(Supervisor::Dependencies{
              .process1 = test.brain().process1,
              .timer = test.timer,
              .clock = test.clock,
              .random = [] { return 0.0; },
              .output = [](kj::StringPtr) -> kj::Promise<kj::AutoCloseFd> {
                return kj::AutoCloseFd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
              },
              .announce = [](rpc::ServiceStateEvent::Reader) {}}),
          controllers(
              test.brain().store, [](kj::StringPtr) {}, test.timer, test.clock, [] { return 0.0; }),
          mode(test.brain().manager, status, supervisor, controllers) {
      for (auto id : {"apid"_kj, "networkd"_kj, "other"_kj}) {
        ServiceDefinition definition;
        definition.id = kj::str(id);
        definition.command = kj::str("/usr/bin/", id);
        definition.argv = kj::arr(kj::str("/usr/bin/", id));
        supervisor.load(kj::mv(definition));
      }
      controllers.add(kj::heap<Certificates>(test.looked));
    }
  };
};

// Catches: a waiting machine that cannot be reached with a config, or does not report why it waits.
TEST_F(MaintenanceModeTest, OpensTheMachineUntilThereIsAConfig) {
  sources.answers.add(kj::str());
  auto loading = waitForAConfig();
  Rest rest(*this);
  settle();
  EXPECT_EQ(1u, looked);
  EXPECT_FALSE(machine.runs("apid"));

  rest.mode.begin();
  settle();
  EXPECT_EQ(MachineStatus::Stage::MAINTENANCE, rest.status.stage());
  ASSERT_EQ(1u, rest.status.problems().size());
  EXPECT_TRUE(rest.status.problems()[0].startsWith("no machine config"));
  EXPECT_TRUE(machine.runs("apid") && machine.runs("networkd"));
  EXPECT_FALSE(machine.runs("other"));
  EXPECT_EQ(2u, looked);

  apply(document("a"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  rest.mode.changed();
  settle();
  EXPECT_EQ(MachineStatus::Stage::BOOTING, rest.status.stage());
  EXPECT_EQ(3u, looked);
}

// Catches: the config manager's first state in a new brain, which starts services before they are
// known, or overwrites the stage.
TEST_F(MaintenanceModeTest, WhatComesBeforeItBeginsIsLeftAlone) {
  booted(document("a"));
  Rest rest(*this);
  settle();
  rest.status.set(MachineStatus::Stage::RUNNING);
  rest.mode.changed();
  rest.mode.begin();
  settle();
  EXPECT_EQ(MachineStatus::Stage::RUNNING, rest.status.stage());
  EXPECT_EQ(1u, looked);
  EXPECT_EQ(0u, machine.childCount());
}

// Catches: a failed boot that is shown as continuing, because a config was being applied.
TEST_F(MaintenanceModeTest, AFailedBootStaysFailed) {
  sources.answers.add(kj::str());
  auto loading = waitForAConfig();
  Rest rest(*this);
  rest.mode.begin();
  settle();
  brain().failed = true;
  rest.status.set(MachineStatus::Stage::FAILED);
  rest.mode.changed();
  EXPECT_EQ(MachineStatus::Stage::FAILED, rest.status.stage());
}

}  // namespace
}  // namespace talos::machined
