// runtime.MetricsController: publishes machine.metrics, for apid, as the resource
// MetricsEndpoints/metrics. While the config is not known, and without the key, the resource does
// not exist and apid serves no metrics.
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/metrics-resources.capnp.h"

namespace talos::machined {
namespace {

class MetricsController final : public Controller {
 public:
  explicit MetricsController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "runtime.MetricsController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::MetricsEndpointSpec>();
  }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::MetricsEndpointSpec> outputs(name());
    KJ_IF_MAYBE (machine, config.tryMachine(store)) {
      if (machine->hasMetrics()) {
        auto metrics = machine->getMetrics();
        auto spec = outputs.add("metrics");
        spec.setPort(metrics.getPort());
        spec.setPlain(metrics.getPlain());
        spec.setToken(metrics.getToken());
      }
    }
    outputs.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> metricsController(ControllerDependencies& deps) {
  return kj::heap<MetricsController>(deps.config);
}

}  // namespace talos::machined
