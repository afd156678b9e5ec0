#include "machined/controllers/registries-controller.h"

namespace talos::machined {

kj::ArrayPtr<const Controller::Input> RegistriesController::inputs() const {
  static const Input kInputs[] = {{"", "MachineConfigs.config.talos.dev"_kj, "v1alpha1"}};
  return kInputs;
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
