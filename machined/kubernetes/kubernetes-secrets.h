// secrets.KubernetesController: secrets/KubernetesSecrets[k8s-certs], the certificates of this
// node's Kubernetes control plane.
//
//   apiServer                    of port 6443
//   apiServerKubeletClient       towards kubelets
//   frontProxy                   towards aggregated APIs, by the aggregator's CA
//   adminKubeconfig              the node's own, system:masters; nobody else is given it
//   controllerManagerKubeconfig  system:kube-controller-manager; RBAC says what it may
//   schedulerKubeconfig          system:kube-scheduler
//
// Each is renewed only when its own inputs (CA, names, addresses, where the API server is) changed
// or half of its lifetime is over. The kubeconfigs mean the API server of this node: what needs it
// first needs no endpoint. Addresses of pods and services, and shared ones that this node holds for
// a while, are in no certificate but by the config. Key operations run in the thread pool.
//
// After a crash of the brain they are as they were; after a reboot too, for they are kept on STATE,
// beside the keys that they could be made with. A file that cannot be read is told, and they are
// made anew. As long as the clock is not known to be right (TimeStatuses), none is renewed for
// being of the future, and none is made before the CA was.
#pragma once

#include <kj/timer.h>

#include "common/kube/kubeconfig.h"
#include "common/memory/zeroize.h"
#include "machined/config/controllers/controller-parts.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

constexpr kj::StringPtr kKubernetesRootId = "k8s"_kj;
constexpr kj::StringPtr kKubernetesSecretsId = "k8s-certs"_kj;
constexpr auto kKubernetesLifetime = 365 * kj::DAYS;
constexpr kj::StringPtr kKeptSecretsFile = "/system/state/kubernetes-secrets"_kj;

// What the certificates are made for, by value: it goes to the thread pool.
struct KubernetesIdentity {
  kj::String cluster, server;
  kj::String authority, aggregator;  // PEM
  pki::Pem authorityKey, aggregatorKey;
  NodeNames names;  // of the API server
};
// FailedPrecondition naming the key of the config that is missing.
KubernetesIdentity identityOf(rpc::RootSecretSpec::KubernetesRoot::Reader root, uint16_t localPort,
                              NodeNames node, kj::ArrayPtr<const kj::String> otherNetworks);

// The certificates: those of `stored` that can stay, the others made now. Blocking. True: some were
// made.
bool renewKubernetesSecrets(const KubernetesIdentity& identity,
                            kj::Maybe<rpc::KubernetesSecretsSpec::Reader> stored, kj::Date now,
                            rpc::KubernetesSecretsSpec::Builder out);
// The file on STATE, readable for root alone; none: there is none. Throws for a damaged one.
// Blocking.
kj::Maybe<kj::Own<SecretMessage>> readKeptSecrets(kj::StringPtr file);
void writeKeptSecrets(kj::StringPtr file, SecretMessage& message);

// When half of the life of the first of them is over.
kj::Date halfLife(rpc::KubernetesSecretsSpec::Reader secrets);
// Before this moment one of them is not valid yet.
kj::Date notBefore(rpc::KubernetesSecretsSpec::Reader secrets);

class KubernetesController final : public Controller {
 public:
  struct Dependencies {
    UvLoop& uv;
    kj::Timer& timer;
    const kj::Clock& clock;
    kj::Function<kj::Maybe<config::Config::Reader>(Store&)> readConfig;
    kj::Function<bool()> isMounted;  // STATE
    kj::StringPtr file = kKeptSecretsFile;
  };
  explicit KubernetesController(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::StringPtr name() const override { return "secrets.KubernetesController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;
  void wakeBy(kj::Function<void()> function) override { wake = kj::mv(function); }

 private:
  Dependencies deps;
  kj::Function<void()> wake = [] {};
  kj::Promise<void> renewal = nullptr;

  kj::Promise<void> maintain(Store& store, KubernetesIdentity identity);
  void renewAt(kj::Date due);
};

}  // namespace talos::machined
