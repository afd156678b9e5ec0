#include "machined/controllers/machine-status-controller.h"

#include "common/base/date.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {
constexpr kj::StringPtr kServices = "Services.v1alpha1.talos.dev"_kj;
// Less than that is a matter of when each is read.
constexpr auto kClocksDiffer = 2 * kj::SECONDS;
constexpr kj::StringPtr kMachineStatusOutputs[] = {"MachineStatuses.runtime.talos.dev"_kj};
const Controller::Input kMachineStatusInputs[] = {{"", kServices}};
}  // namespace

kj::ArrayPtr<const Controller::Input> MachineStatusController::inputs() const {
  return kMachineStatusInputs;
}
kj::ArrayPtr<const kj::StringPtr> MachineStatusController::outputs() const {
  return kMachineStatusOutputs;
}

kj::Promise<void> MachineStatusController::reconcile(Store& store) {
  auto now = state();
  kj::Vector<kj::String> problems;
  for (auto& problem : now.problems) problems.add(kj::str(problem));
  for (auto service : store.list("", kServices)) {
    if (service.getSpec().getAs<rpc::ServiceSpec>().getHealthy()) continue;
    problems.add(kj::str("service ", service.getMetadata().getId(), " is not healthy"));
  }
  Outputs outputs("", kMachineStatusOutputs[0], name());
  auto spec = outputs.add<rpc::MachineStatusSpec>("machine");
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
