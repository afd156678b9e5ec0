#include "machined/services/service-adoption.h"

#include <gtest/gtest.h>

namespace talos::machined {
namespace {

using State = rpc::ServiceState;
using Adoption = AdoptionAction;

constexpr State kStates[] = {State::INITIALIZED, State::PREPARING, State::WAITING, State::RUNNING,
                             State::STOPPING,    State::FINISHED,  State::FAILED,  State::SKIPPED};
enum class Form { kChild, kContainer, kPart };

// Calls `check` with everything that a predecessor can leave.
template <typename F>
void forEachLeft(F&& check) {
  for (auto state : kStates) {
    for (bool startWhenDown : {false, true}) {
      for (auto form : {Form::kChild, Form::kContainer, Form::kPart}) {
        for (bool hasProcess : {false, true}) {
          if (hasProcess && form != Form::kChild) continue;  // only children are process 1's
          SCOPED_TRACE(testing::Message()
                       << "state " << static_cast<int>(state) << " start " << startWhenDown
                       << " form " << static_cast<int>(form) << " process " << hasProcess);
          check(LeftService{.state = state,
                            .startWhenDown = startWhenDown,
                            .hasProcess = hasProcess,
                            .isContainer = form == Form::kContainer,
                            .isPart = form == Form::kPart});
        }
      }
    }
  }
}

// Catches: a service whose process ended with or before the predecessor and that is forgotten,
// started twice, or started although it was stopped.
TEST(ServiceAdoption, WithoutAProcessTheLastStateAndRequestDecide) {
  struct {
    State state;
    bool startWhenDown;
    Adoption child, container, part;
  } rows[] = {
      {State::INITIALIZED, false, Adoption::kNone, Adoption::kNone, Adoption::kNone},
      {State::INITIALIZED, true, Adoption::kStart, Adoption::kStart, Adoption::kStart},
      {State::PREPARING, false, Adoption::kStart, Adoption::kStart, Adoption::kStart},
      {State::PREPARING, true, Adoption::kStart, Adoption::kStart, Adoption::kStart},
      {State::WAITING, false, Adoption::kStart, Adoption::kStart, Adoption::kStart},
      {State::WAITING, true, Adoption::kStart, Adoption::kStart, Adoption::kStart},
      {State::RUNNING, false, Adoption::kRestart, Adoption::kSeek, Adoption::kStart},
      {State::RUNNING, true, Adoption::kRestart, Adoption::kSeek, Adoption::kStart},
      {State::STOPPING, false, Adoption::kReportStop, Adoption::kSeek, Adoption::kReportStop},
      {State::STOPPING, true, Adoption::kStart, Adoption::kSeek, Adoption::kStart},
      {State::FINISHED, false, Adoption::kKeepFinished, Adoption::kKeepFinished,
       Adoption::kKeepFinished},
      {State::FINISHED, true, Adoption::kStart, Adoption::kStart, Adoption::kStart},
      {State::FAILED, false, Adoption::kKeepFailed, Adoption::kKeepFailed, Adoption::kKeepFailed},
      {State::FAILED, true, Adoption::kStart, Adoption::kStart, Adoption::kStart},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(testing::Message()
                 << "state " << static_cast<int>(row.state) << " start " << row.startWhenDown);
    LeftService left{.state = row.state,
                     .startWhenDown = row.startWhenDown,
                     .hasProcess = false,
                     .isContainer = false,
                     .isPart = false};
    EXPECT_EQ(row.child, planAdoption(left).action);
    left.isContainer = true;
    EXPECT_EQ(row.container, planAdoption(left).action);
    left.isContainer = false;
    left.isPart = true;
    EXPECT_EQ(row.part, planAdoption(left).action);
  }
}

// Catches: a second process beside one that still runs.
TEST(ServiceAdoption, AProcessThatRunsIsAlwaysAdopted) {
  forEachLeft([](const LeftService& left) {
    EXPECT_EQ(left.hasProcess, planAdoption(left).action == Adoption::kAdopt);
  });
}

// Catches: a stop that the next brain forgets, and a stop that was not requested.
TEST(ServiceAdoption, AStopContinuesIfThereMayBeAProcess) {
  forEachLeft([](const LeftService& left) {
    auto plan = planAdoption(left);
    bool mayRun = plan.action == Adoption::kAdopt || plan.action == Adoption::kSeek;
    EXPECT_EQ(mayRun && left.state == State::STOPPING, plan.stop);
  });
}

// Catches: a restart that ends after its stop, and a stopped service that is started later because
// the request for an earlier start is still held.
TEST(ServiceAdoption, ARequestedStartIsCarriedOutOnce) {
  forEachLeft([](const LeftService& left) {
    auto plan = planAdoption(left);
    EXPECT_EQ(plan.stop && left.startWhenDown, plan.startWhenDown);
    if (!left.startWhenDown || plan.startWhenDown) return;
    EXPECT_TRUE(plan.action == Adoption::kAdopt || plan.action == Adoption::kSeek ||
                plan.action == Adoption::kRestart || plan.action == Adoption::kStart);
  });
}

}  // namespace
}  // namespace talos::machined
