#include "machined/boot/machine-stage.h"

#include <gtest/gtest.h>

#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

struct ProgressTest : testing::Test {
  ~ProgressTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  FakeMachine machine;

  void hold(Progress::Stage stage, kj::StringPtr problem = "") {
    FakeProcess1 brain(machine);
    Progress progress;
    progress.stage = stage;
    if (problem.size() > 0) progress.problems.add(kj::str(problem));
    holdProgress(brain, progress).wait(scope);
  }
  Progress take() {
    FakeProcess1 next(machine);
    return takeProgress(next);
  }
};

// Catches: a new brain that starts the boot again, loses the reasons, or does not finish a reboot.
TEST_F(ProgressTest, SurvivesTheBrain) {
  EXPECT_EQ(Progress::Stage::INITIALIZE, take().stage);
  hold(Progress::Stage::FAILED, "config.yaml:3:1: machine: missing");
  auto failed = take();
  EXPECT_EQ(Progress::Stage::FAILED, failed.stage);
  ASSERT_EQ(1u, failed.problems.size());
  EXPECT_EQ("config.yaml:3:1: machine: missing", failed.problems[0]);
  hold(Progress::Stage::SHUTTING_DOWN);
  EXPECT_EQ(Progress::Stage::SHUTTING_DOWN, take().stage);
  EXPECT_EQ(0u, take().problems.size());
}

// Catches: an unknown stage of another version that is used.
TEST_F(ProgressTest, AStageOfAnotherVersionIsTheBeginning) {
  hold(static_cast<Progress::Stage>(99));
  EXPECT_EQ(Progress::Stage::INITIALIZE, take().stage);
}

}  // namespace
}  // namespace talos::machined
