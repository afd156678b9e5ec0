// config.FeaturesController: publishes the features of a node, which clients of the original
// request, and the policy by which pods get access to the API. Features that this system does not
// have are off, whatever the config says: there is no discovery, no image cache, and no DNS server
// for pods.
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/inventory-resources.capnp.h"

namespace talos::machined {
namespace {

void fill(rpc::KubernetesAccessConfigSpec::Builder out, config::PodApiAccess::Reader access) {
  out.setEnabled(access.getEnabled());
  auto roles = access.getAllowedRoles();
  auto names = out.initAllowedApiRoles(roles.size());
  for (auto i : kj::indices(roles)) names.set(i, roleName(roles[i]));
  out.setAllowedKubernetesNamespaces(access.getAllowedKubernetesNamespaces());
}

class FeaturesController final : public Controller {
 public:
  explicit FeaturesController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "config.FeaturesController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::ClusterInfoSpec, rpc::DiscoveryConfigSpec,
                     rpc::KubernetesAccessConfigSpec, rpc::ImageCacheConfigSpec,
                     rpc::HostDnsConfigSpec>();
  }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::ImageCacheConfigSpec> images(name());
    auto cache = images.add("image-cache");
    cache.setStatus("disabled");
    cache.setCopyStatus("skipped");
    images.apply(store);
    Outputs<rpc::HostDnsConfigSpec> dns(name());
    dns.add("config");
    dns.apply(store);
    Outputs<rpc::ClusterInfoSpec> clusters(name());
    Outputs<rpc::DiscoveryConfigSpec> discovery(name());
    Outputs<rpc::KubernetesAccessConfigSpec> access(name());
    KJ_IF_MAYBE (c, config.tryConfig(store)) {
      clusters.add("current").setClusterName(c->getCluster().getClusterName());
      discovery.add("cluster");
      auto type = machineTypeOf(*c);
      if (type == rpc::MachineType::INIT || type == rpc::MachineType::CONTROLPLANE) {
        fill(access.add("config"), c->getMachine().getFeatures().getKubernetesTalosAPIAccess());
      }
    }
    clusters.apply(store);
    discovery.apply(store);
    access.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> featuresController(ControllerDependencies& deps) {
  return kj::heap<FeaturesController>(deps.config);
}

}  // namespace talos::machined
