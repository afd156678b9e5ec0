#include "machined/controllers/registries-controller.h"

#include "machined/controllers/machine-config-reader.h"

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

}  // namespace talos::machined
