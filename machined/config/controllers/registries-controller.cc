#include "machined/config/controllers/registries-controller.h"

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/controllers/machine-config-reader.h"

namespace talos::machined {

kj::Array<Controller::Input> RegistriesController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
}

kj::Promise<void> RegistriesController::reconcile(Store& store) {
  KJ_IF_MAYBE (files, render(store)) {
    return uv.blocking([folder = kj::str(folder), files = kj::mv(*files)]() {
      writeRegistryFiles(folder, files);
    });
  }
  return kj::READY_NOW;
}

kj::Own<Controller> registriesController(ControllerDependencies& deps) {
  return kj::heap<RegistriesController>(deps.uv, [&config = deps.config](Store& store) {
    return config.tryMachine(store).map([](config::Machine::Reader machine) {
      return registryFiles(machine.getRegistries(), kCriFolder, ownOomScores());
    });
  });
}

}  // namespace talos::machined
