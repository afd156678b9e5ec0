#include "machined/kubernetes/manifests/manifest-controller.h"

#include "common/net/text-values.h"
#include "machined/kubernetes/control-plane-config.h"
#include "machined/kubernetes/manifests/bootstrap-manifests.h"
#include "machined/resources/controller-outputs.h"

namespace talos::machined {
namespace {

// Returns the id of "abcdef.0123456789abcdef"; empty for a token that Kubernetes does not accept.
kj::String tokenId(kj::StringPtr token) {
  if (!config::isToken(token)) return kj::String();
  return kj::heapString(token.slice(0, KJ_ASSERT_NONNULL(token.findFirst('.'))));
}

kj::Vector<BootstrapManifest> render(SystemManifests system, config::Config::Reader config) {
  auto pods = config.getMachine().getFeatures().getKubernetesTalosAPIAccess().getEnabled();
  return renderManifests(system, tokenId(config.getCluster().getToken()), pods);
}

class ManifestController final : public Controller {
 public:
  explicit ManifestController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "k8s.ManifestController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId),
                   input<rpc::ControlPlaneConfigSpec>(kSystemManifestsId));
  }
  kj::Array<kj::StringPtr> outputs() const override { return typeNames<rpc::ManifestSpec>(); }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::ManifestSpec> outputs(name());
    KJ_IF_MAYBE (document, config.document(store)) {
      KJ_IF_MAYBE (wanted, store.tryGet<rpc::ControlPlaneConfigSpec>(kSystemManifestsId)) {
        if (wanted->isSystemManifests()) {
          for (auto& manifest : render(wanted->getSystemManifests(), document->get())) {
            outputs.add(manifest.id).setObjects(manifest.objects);
          }
        }
      }
    }
    outputs.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> manifestController(ControllerDependencies& deps) {
  return kj::heap<ManifestController>(deps.config);
}

kj::Vector<BootstrapManifest> manifestsOf(config::Config::Reader config) {
  if (!config::isControlPlane(config.getMachine().getType())) return {};
  Outputs<rpc::ControlPlaneConfigSpec> planned("manifestsOf");
  planControlPlane(config, planned);
  KJ_IF_MAYBE (wanted, planned.find(kSystemManifestsId)) {
    return render(wanted->getSystemManifests(), config);
  }
  return {};
}

}  // namespace talos::machined
