#include "kubed/manifests/kubernetes-store-adapter.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"
#include "common/kube/json-yaml.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kSecretsId = "k8s-certs"_kj, kEtcdClientId = "client"_kj,
                        kKubeletId = "kubelet"_kj, kBootstrapId = "control-plane"_kj,
                        kNodeId = "node"_kj;

kj::String pemOf(capnp::Data::Reader data) {
  return kj::heapString(data.asChars().begin(), data.size());
}

}  // namespace

KubernetesStoreAdapter::KubernetesStoreAdapter(StoreClient& store, TlsEndpoint& etcd,
                                               SharedKube::Make make, Signal& changedSignal)
    : etcd(etcd), make(kj::mv(make)), changed(changedSignal) {
  secrets = store.watch<rpc::KubernetesSecretsSpec>(
      [this] {
        takeKubeconfig();
        changed.raise();
      },
      kSecretsId);
  etcdSecrets = store.watch<rpc::EtcdSecretsSpec>(
      [this] {
        takeEtcdCredentials();
        changed.raise();
      },
      kEtcdClientId);
  kubeletSecrets = store.watch<rpc::KubeletSecretsSpec>(
      [this] {
        takeKubeconfig();  // for the endpoint
        changed.raise();
      },
      kKubeletId);
  manifestSpecs = store.watch<rpc::ManifestSpec>([this] { changed.raise(); });
  extraSpecs =
      store.watch<rpc::ManifestSpec>([this] { changed.raise(); }, "", kube::kExtraManifests);
  extraStatuses =
      store.watch<rpc::ManifestStatusSpec>([this] { changed.raise(); }, "", kube::kExtraManifests);
  bootstrap = store.watch<rpc::BootstrapStatusSpec>([this] { changed.raise(); }, kBootstrapId);
  hostnames = store.watch<rpc::HostnameSpecSpec>([this] { changed.raise(); });
  nodes = store.watch<rpc::NodeSpecSpec>([this] { changed.raise(); }, kNodeId);
}

KubernetesStoreAdapter::~KubernetesStoreAdapter() noexcept(false) = default;

void KubernetesStoreAdapter::takeKubeconfig() {
  current = nullptr;
  far = nullptr;
  noClient = kj::str(messages::kWaitingFor, "the certificates of Kubernetes");
  KJ_IF_MAYBE (found, secrets.find(kSecretsId)) {
    auto failure = kj::runCatchingExceptions([&] {
      auto access = kube::readAccess(found->getAdminKubeconfig(), "adminKubeconfig");
      current = kj::refcounted<SharedKube>(make(kj::mv(access)));
      KJ_IF_MAYBE (kubelet, kubeletSecrets.find(kKubeletId)) {
        auto access = kube::readAccess(found->getAdminKubeconfig(), "adminKubeconfig");
        auto endpoint = kube::readAccess(kubelet->getBootstrapKubeconfig(), "bootstrapKubeconfig");
        access.host = kj::mv(endpoint.host);
        access.tlsName = kj::mv(endpoint.tlsName);
        access.port = endpoint.port;
        far = kj::refcounted<SharedKube>(make(kj::mv(access)));
      }
    });
    KJ_IF_MAYBE (e, failure) {
      noClient = messageOf(*e);
      log::error("cannot use the admin kubeconfig", {{"error", noClient}});
    }
  }
}

void KubernetesStoreAdapter::takeEtcdCredentials() {
  noEtcd = kj::str(messages::kWaitingFor, "the certificate of etcd's clients");
  KJ_IF_MAYBE (found, etcdSecrets.find(kEtcdClientId)) {
    auto pair = found->getClient();
    auto failure = kj::runCatchingExceptions([&] {
      etcd.replace({pemOf(found->getCa()), pemOf(pair.getCrt()), pki::Pem(pemOf(pair.getKey()))});
    });
    noEtcd = failure.map([](kj::Exception& e) {
      return kj::str("the certificate of etcd's clients is not valid: ", messageOf(e));
    });
  } else {
    etcd.close();
  }
}

kj::OneOf<kj::Own<SharedKube>, kj::String> KubernetesStoreAdapter::client() {
  KJ_IF_MAYBE (known, current) return kj::addRef(**known);
  return kj::str(noClient);
}

kj::OneOf<kj::Own<SharedKube>, kj::String> KubernetesStoreAdapter::endpointClient() {
  KJ_IF_MAYBE (known, far) return kj::addRef(**known);
  return client();
}

kj::Maybe<kj::String> KubernetesStoreAdapter::obstacle() const {
  KJ_IF_MAYBE (error, noEtcd) return kj::str(*error);
  KJ_IF_MAYBE (status, bootstrap.find(kBootstrapId)) {
    if (status->getSelfHostedControlPlane()) {
      return kj::str(messages::kSelfHosted, ": its manifests are left alone");
    }
  } else {
    return kj::str(messages::kWaitingFor, "etcd");
  }
  return nullptr;
}

kj::Vector<ManifestText> KubernetesStoreAdapter::manifests() const {
  kj::Vector<ManifestText> all;
  auto add = [&](auto& manifests, bool extra) {
    for (auto one : manifests) {
      all.add(ManifestText{one.id(), one.getObjects(), extra, one.version()});
    }
  };
  add(manifestSpecs, false);
  add(extraSpecs, true);
  return all;
}

uint64_t KubernetesStoreAdapter::secretsVersion() const {
  return secrets.find(kSecretsId).map([](auto found) { return found.version(); }).orDefault(0);
}

KubernetesStoreAdapter::Token KubernetesStoreAdapter::token() const {
  KJ_IF_MAYBE (found, kubeletSecrets.find(kKubeletId)) {
    auto documents = kube::readYaml(found->getBootstrapKubeconfig(), "bootstrapKubeconfig");
    KJ_DEFER(for (auto& document : documents) kube::wipe(document));
    for (auto& document : documents) {
      for (auto user : kube::itemsAt(document, {"users"})) {
        auto token = kube::textAt(*user, {"user", "token"});
        KJ_IF_MAYBE (dot, token.findFirst('.')) {
          return {.id = kj::heapString(token.slice(0, *dot)),
                  .secret = pki::Pem(kj::str(token.slice(*dot + 1)))};
        }
      }
    }
  }
  return {};
}

kj::String KubernetesStoreAdapter::machineCa() const {
  KJ_IF_MAYBE (found, kubeletSecrets.find(kKubeletId)) return pemOf(found->getMachineCa());
  return kj::str();
}

kj::String KubernetesStoreAdapter::hostname() const {
  for (auto name : hostnames) return kj::str(name.getHostname());
  return kj::str();
}

kj::Maybe<ResourceOf<rpc::NodeSpecSpec>> KubernetesStoreAdapter::node() const {
  return nodes.find(kNodeId);
}

kj::StringPtr KubernetesStoreAdapter::extraProblem() const {
  for (auto status : extraStatuses) return status.getMessage();
  return "";
}

}  // namespace talos::kubed
