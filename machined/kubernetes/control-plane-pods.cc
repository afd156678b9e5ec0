#include "machined/kubernetes/control-plane-pods.h"

#include "machined/kubernetes/control-plane-config.h"
#include "machined/kubernetes/etcd/etcd-secrets.h"
#include "machined/kubernetes/kubernetes-secrets.h"
#include "machined/resources/controller-outputs.h"

namespace talos::machined {
namespace {

using ConfigSpec = rpc::ControlPlaneConfigSpec;

// Adds the files of a component's config. Returns the version of the config; 0 without one.
uint64_t addConfigFiles(Store& store, Component component, kj::Vector<SecretFile>& files) {
  KJ_IF_MAYBE (config, store.tryGet<ConfigSpec>(nameOf(component))) {
    for (auto& file : configFiles(*config)) files.add(kj::mv(file));
    return config->version();
  }
  return 0;
}

bool wantsPodSecurityPolicy(Store& store) {
  KJ_IF_MAYBE (manifests, store.tryGet<ConfigSpec>(kSystemManifestsId)) {
    return manifests->getSystemManifests().getPodSecurityPolicyEnabled();
  }
  return false;
}

kj::String renderPod(const ResourceOf<ConfigSpec>& config, kj::StringPtr secrets,
                     kj::StringPtr said, Store& store) {
  PodContext context{.version = {},
                     .podSecurityPolicy = wantsPodSecurityPolicy(store),
                     .configVersion = config.version(),
                     .secretsVersion = secrets};
  auto pod = [&](auto spec) {
    context.version = versionOf(spec.getImage(), said).version;
    return staticPod(spec, context);
  };
  if (config.isApiServer()) return pod(config.getApiServer());
  if (config.isControllerManager()) return pod(config.getControllerManager());
  return pod(config.getScheduler());
}

void fill(rpc::SecretStatusSpec::Builder status, const SecretNames& names) {
  auto fillList = [](auto list, const kj::Vector<kj::String>& texts) {
    for (auto i : kj::indices(texts)) list.set(static_cast<unsigned>(i), texts[i]);
  };
  auto size = [](const kj::Vector<kj::String>& texts) {
    return static_cast<unsigned>(texts.size());
  };
  fillList(status.initEncryptionKeys(size(names.encryptionKeys)), names.encryptionKeys);
  fillList(status.initServiceAccountKeys(size(names.serviceAccountKeys)), names.serviceAccountKeys);
  fillList(status.initAggregatorCAs(size(names.aggregatorCas)), names.aggregatorCas);
  fillList(status.initEtcdCAs(size(names.etcdCas)), names.etcdCas);
}

// Adds machine.pods, without those in which the checks of the config have found a mistake.
void addPods(config::Machine::Reader machine, Outputs<rpc::StaticPodSpec>& outputs) {
  for (auto pod : machine.getPods()) {
    auto text = pod.getPod();
    if (pod.getId().size() == 0) continue;
    outputs.add(pod.getId()).setPod(text.endsWith("\n") ? kj::str(text) : kj::str(text, "\n"));
  }
}

// Keeps the pods of the config while a restarted brain does not know it yet.
void keepPods(Store& store, Outputs<rpc::StaticPodSpec>& outputs) {
  for (auto pod : store.list<rpc::StaticPodSpec>()) {
    bool runs = pod.metadata().getPhase() == rpc::Metadata::Phase::RUNNING;
    if (runs && !isOfControlPlane(pod.id())) outputs.add(pod.id()).setPod(pod.getPod());
  }
}

}  // namespace

kj::Array<Controller::Input> RenderSecretsController::inputs() const {
  return kj::arr(input<rpc::RootSecretSpec>(kKubernetesRootId),
                 input<rpc::KubernetesSecretsSpec>(kKubernetesSecretsId),
                 input<rpc::EtcdSecretsSpec>(kEtcdClientId), input<ConfigSpec>());
}
kj::Array<kj::StringPtr> RenderSecretsController::outputs() const {
  return typeNames<rpc::SecretStatusSpec>();
}

kj::Promise<void> RenderSecretsController::reconcile(Store& store) {
  KJ_IF_MAYBE (root, store.tryGet<rpc::RootSecretSpec>(kKubernetesRootId)) {
    KJ_IF_MAYBE (secrets, store.tryGet<rpc::KubernetesSecretsSpec>(kKubernetesSecretsId)) {
      KJ_IF_MAYBE (etcd, store.tryGet<rpc::EtcdSecretsSpec>(kEtcdClientId)) {
        // Without it, the files of the API server would lack those of its config.
        if (store.tryGet<ConfigSpec>(kApiServerId) != nullptr) {
          auto files = secretFiles(root->getK8s(), *secrets, *etcd);
          auto names = KJ_MAP(component, kComponents) {
            return secretNames(component, root->getK8s(), *etcd);
          };
          auto versions = KJ_MAP(component, kComponents) {
            return addConfigFiles(store, component, files);
          };
          return render(store, kj::mv(files), {kj::mv(names), kj::mv(versions)});
        }
      }
    }
  }
  Outputs<rpc::SecretStatusSpec>(name()).apply(store);
  return kj::READY_NOW;
}

kj::Promise<void> RenderSecretsController::render(Store& store, kj::Vector<SecretFile> list,
                                                  Rendered rendered) {
  struct Files : public kj::Refcounted {
    kj::Vector<SecretFile> list;
  };
  auto held =
      kj::refcounted<Files>();  // also held by the thread, which continues when this is dropped
  held->list = kj::mv(list);
  auto& files = held->list;
  co_await deps.blocking([this, held = kj::addRef(*held)]() mutable {
    writeSecretFiles(deps.folder, held->list, deps.ownerOf);
  });
  Outputs<rpc::SecretStatusSpec> outputs(name());
  uint64_t highest = 0;
  for (auto component : kComponents) {
    auto version = co_await deps.kept.of(kj::str("secrets/", nameOf(component)),
                                         restartsFor(component, files));
    auto status = outputs.add(nameOf(component));
    status.setReady(true);
    status.setVersion(kj::str(version));
    fill(status, rendered.names[static_cast<size_t>(component)]);
    status.setConfigVersion(rendered.configVersions[static_cast<size_t>(component)]);
    highest = kj::max(highest, version);
  }
  auto all = outputs.add(kStaticPodsId);
  all.setReady(true);
  all.setVersion(kj::str(highest));
  outputs.apply(store);
}

kj::Array<Controller::Input> StaticPodController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<ConfigSpec>(),
                 input<rpc::SecretStatusSpec>());
}
kj::Array<kj::StringPtr> StaticPodController::outputs() const {
  return typeNames<rpc::StaticPodSpec>();
}

bool isOfControlPlane(kj::StringPtr podId) {
  for (auto component : kComponents) {
    if (podId == nameOf(component)) return true;
  }
  return false;
}

kj::Promise<void> StaticPodController::reconcile(Store& store) {
  Outputs<rpc::StaticPodSpec> outputs(name());
  kj::String said;  // reported images without a release
  KJ_IF_MAYBE (config, readConfig(store)) {
    said = kj::str(config->getCluster().getKubernetesVersion());
    addPods(config->getMachine(), outputs);
  } else {
    keepPods(store, outputs);
  }
  for (auto component : kComponents) {
    auto id = nameOf(component);
    KJ_IF_MAYBE (config, store.tryGet<ConfigSpec>(id)) {
      KJ_IF_MAYBE (secrets, store.tryGet<rpc::SecretStatusSpec>(id)) {
        if (secrets->getConfigVersion() == config->version()) {
          outputs.add(id).setPod(renderPod(*config, secrets->getVersion(), said, store));
        } else KJ_IF_MAYBE (previous, store.tryGet<rpc::StaticPodSpec>(id)) {
          outputs.set(id, *previous);
        }
      }
    }
  }
  outputs.apply(store);
  return kj::READY_NOW;
}

}  // namespace talos::machined
