// config.MetadataBlockController: publishes MetadataBlockSpecs/<platform>, the addresses that
// networkd blocks for pods, unless machine.features.podMetadataAccess permits them. Before there is
// a config there are no pods; while a restarted brain does not know the config, its predecessor's
// spec stays.
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

class MetadataBlockController final : public Controller {
 public:
  explicit MetadataBlockController(ControllerDependencies& deps) : deps(deps) {}

  kj::StringPtr name() const override { return "config.MetadataBlockController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::MetadataBlockSpecSpec>();
  }

  kj::Promise<void> reconcile(Store& store) override {
    KJ_IF_MAYBE (machine, deps.config.tryMachine(store)) {
      Outputs<rpc::MetadataBlockSpecSpec> outputs(name());
      if (deps.metadataAddresses.size() > 0 && !machine->getFeatures().getPodMetadataAccess()) {
        auto addresses = outputs.add(deps.platform).initAddresses(deps.metadataAddresses.size());
        for (auto i : kj::indices(deps.metadataAddresses)) {
          addresses.set(i, deps.metadataAddresses[i]);
        }
      }
      outputs.apply(store);
    }
    return kj::READY_NOW;
  }

 private:
  ControllerDependencies& deps;
};

}  // namespace

kj::Own<Controller> metadataBlockController(ControllerDependencies& deps) {
  return kj::heap<MetadataBlockController>(deps);
}

}  // namespace talos::machined
