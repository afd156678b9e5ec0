#include "machined/services/service-adoption.h"

namespace talos::machined {

AdoptionPlan planAdoption(const LeftService& left) {
  using St = rpc::ServiceState;
  bool stopping = left.state == St::STOPPING;
  bool mayRun = left.state == St::RUNNING || stopping;
  if (left.hasProcess || (left.isContainer && mayRun)) {
    return {.action = left.hasProcess ? AdoptionAction::kAdopt : AdoptionAction::kSeek,
            .stop = stopping,
            .startWhenDown = stopping && left.startWhenDown};
  }
  if (left.state == St::RUNNING) {
    return {left.isPart ? AdoptionAction::kStart : AdoptionAction::kRestart};
  }
  // The first half of a start or a restart is done.
  if (left.startWhenDown) return {AdoptionAction::kStart};
  switch (left.state) {
    case St::PREPARING:
    case St::WAITING:
      return {AdoptionAction::kStart};
    case St::STOPPING:
      return {AdoptionAction::kReportStop};
    case St::FINISHED:
      return {AdoptionAction::kKeepFinished};
    case St::FAILED:
      return {AdoptionAction::kKeepFailed};
    default:
      return {AdoptionAction::kNone};
  }
}

}  // namespace talos::machined
