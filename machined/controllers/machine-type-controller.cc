#include "machined/controllers/machine-type-controller.h"

#include "machined/resources/controller-outputs.h"

namespace talos::machined {
kj::Array<Controller::Input> MachineTypeController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
}
kj::Array<kj::StringPtr> MachineTypeController::outputs() const {
  return typeNames<rpc::MachineTypeSpec>();
}

kj::Promise<void> MachineTypeController::reconcile(Store& store) {
  auto type = rpc::MachineType::UNKNOWN;
  KJ_IF_MAYBE (config, readConfig(store)) {
    type = config->type;
  }
  Outputs<rpc::MachineTypeSpec> outputs(name());
  outputs.add("machine-type").setType(type);
  outputs.apply(store);
  return kj::READY_NOW;
}

}  // namespace talos::machined
