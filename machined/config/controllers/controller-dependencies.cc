#include "machined/config/controllers/controller-dependencies.h"

namespace talos::machined {

void addTo(ControllerRuntime& runtime, ControllerParts& parts) {
#define CONTROLLER(maker) runtime.add(maker(parts));
#include "machined/config/controllers/controllers.inc"
#undef CONTROLLER
}

}  // namespace talos::machined
