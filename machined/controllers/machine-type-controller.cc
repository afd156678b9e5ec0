#include "machined/controllers/machine-type-controller.h"

#include "machined/resources/controller-outputs.h"

namespace talos::machined {
namespace {
constexpr kj::StringPtr kMachineTypeOutputs[] = {"MachineTypes.config.talos.dev"_kj};
const Controller::Input kMachineTypeInputs[] = {{"", kMachineConfigs, kMachineConfigId}};
}  // namespace

kj::ArrayPtr<const Controller::Input> MachineTypeController::inputs() const {
  return kMachineTypeInputs;
}
kj::ArrayPtr<const kj::StringPtr> MachineTypeController::outputs() const {
  return kMachineTypeOutputs;
}

kj::Promise<void> MachineTypeController::reconcile(Store& store) {
  auto type = rpc::MachineType::UNKNOWN;
  KJ_IF_MAYBE (config, readConfig(store)) {
    type = config->type;
  }
  Outputs outputs("", kMachineTypeOutputs[0], name());
  outputs.add<rpc::MachineTypeSpec>("machine-type").setType(type);
  outputs.apply(store);
  return kj::READY_NOW;
}

}  // namespace talos::machined
