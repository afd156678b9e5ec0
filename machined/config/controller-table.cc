#include "machined/config/controllers/controller-dependencies.h"

namespace talos::machined {

void addTo(ControllerRuntime& runtime, ControllerDependencies& deps) {
#define CONTROLLER(maker) runtime.add(maker(deps));
#include "machined/config/controllers/controllers.inc"
#undef CONTROLLER
}

}  // namespace talos::machined
