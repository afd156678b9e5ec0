// config.MachineTypeController: publishes config/MachineTypes[machine-type], `unknown` before there
// is a config.
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-outputs.h"

namespace talos::machined {
namespace {

class MachineTypeController final : public Controller {
 public:
  explicit MachineTypeController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "config.MachineTypeController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override { return typeNames<rpc::MachineTypeSpec>(); }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::MachineTypeSpec> outputs(name());
    auto spec = outputs.add("machine-type");
    spec.setType(rpc::MachineType::UNKNOWN);
    KJ_IF_MAYBE (c, config.tryConfig(store)) spec.setType(machineTypeOf(*c));
    outputs.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> machineTypeController(ControllerDependencies& deps) {
  return kj::heap<MachineTypeController>(deps.config);
}

}  // namespace talos::machined
