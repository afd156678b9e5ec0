#include "machined/config/controllers/machine-status-controller.h"

#include "common/base/date.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {
// A smaller difference comes from reading the two clocks at different moments.
constexpr auto kClocksDiffer = 2 * kj::SECONDS;
}  // namespace

kj::Array<Controller::Input> MachineStatusController::inputs() const {
  return kj::arr(input<rpc::ServiceSpec>());
}
kj::Array<kj::StringPtr> MachineStatusController::outputs() const {
  return typeNames<rpc::MachineStatusSpec>();
}

kj::Promise<void> MachineStatusController::reconcile(Store& store) {
  auto now = state();
  kj::Vector<kj::String> problems;
  for (auto& problem : now.problems) problems.add(kj::str(problem));
  for (auto service : store.list<rpc::ServiceSpec>()) {
    if (service.getHealthy() || isStopping(service.id())) continue;
    problems.add(kj::str("service ", service.id(), " is not healthy"));
  }
  Outputs<rpc::MachineStatusSpec> outputs(name());
  auto spec = outputs.add("machine");
  spec.setStage(now.stage);
  spec.setReady(now.stage == "running" && problems.empty());
  auto list = spec.initProblems(problems.size());
  for (auto i : kj::indices(problems)) list.set(i, problems[i]);
  KJ_IF_MAYBE (at, now.revertsAt) {
    auto known = shown.orDefault(*at);
    auto apart = *at > known ? *at - known : known - *at;
    if (apart > kClocksDiffer) known = *at;
    shown = known;
    spec.setRevertsAt(dateText(known));
  } else {
    shown = nullptr;
  }
  outputs.apply(store);
  return kj::READY_NOW;
}

}  // namespace talos::machined
