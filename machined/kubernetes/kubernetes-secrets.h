// secrets.KubernetesController: secrets/KubernetesSecrets[k8s-certs], the certificates of this
// node's Kubernetes control plane.
//
//   apiServer                    of port 6443; followed by the CA as those of cluster.acceptedCAs
//                                signed it, so that clients that trust only those verify it
//   apiServerKubeletClient       towards kubelets
//   frontProxy                   towards aggregated APIs, by the aggregator's CA
//   adminKubeconfig              the node's own, system:masters; it is not handed out
//   controllerManagerKubeconfig  system:kube-controller-manager; RBAC gives its rights
//   schedulerKubeconfig          system:kube-scheduler
//
// Each is renewed only when its own inputs (CA, names, addresses, the place of the API server)
// changed or half of its lifetime has passed. The kubeconfigs use the API server of this node, so
// the first node needs no endpoint. Addresses of pods and services, and shared ones that this node
// holds temporarily, are in a certificate only if the config lists them. Key operations run in the
// thread pool.
//
// A crash of the brain does not change them, nor does a reboot, because they are stored on STATE,
// beside the keys that sign them. A file that cannot be read is logged, and they are issued again.
// While the clock is not synchronised (TimeStatuses), no certificate is renewed because it is not
// yet valid, or issued with a date before the CA's.
#pragma once

#include <kj/timer.h>

#include "common/kube/kubeconfig.h"
#include "common/memory/zeroize.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/trust/certificate-renewal.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

constexpr kj::StringPtr kKubernetesRootId = "k8s"_kj;
constexpr kj::StringPtr kKubernetesSecretsId = "k8s-certs"_kj;
constexpr auto kKubernetesLifetime = 365 * kj::DAYS;
constexpr kj::StringPtr kKeptSecretsFile = "/system/state/kubernetes-secrets"_kj;

// The inputs of the certificates, by value for the thread pool.
struct KubernetesIdentity {
  kj::String cluster, server;
  kj::String authority, aggregator;  // PEM
  kj::String behind;                 // the CA's key as signed by other CAs, PEM; may be empty
  pki::Pem authorityKey, aggregatorKey;
  NodeNames names;  // of the API server
  kj::Duration lifetime = kKubernetesLifetime;
};
// FailedPrecondition with the missing key of the config.
KubernetesIdentity identityOf(rpc::RootSecretSpec::KubernetesRoot::Reader root, uint16_t localPort,
                              NodeNames node, kj::ArrayPtr<const kj::String> otherNetworks);

// Fills in the certificates of `stored` that can stay, and issues the others. Blocking. Returns
// true if some were issued.
bool renewKubernetesSecrets(const KubernetesIdentity& identity,
                            kj::Maybe<rpc::KubernetesSecretsSpec::Reader> stored, kj::Date now,
                            rpc::KubernetesSecretsSpec::Builder out);
// Reads the file on STATE, readable for root only; nullptr if it does not exist. Throws for a
// damaged file. Blocking.
kj::Maybe<kj::Own<SecretMessage>> readKeptSecrets(kj::StringPtr file);

// Returns the time when half of the lifetime of the first of them has passed.
kj::Date halfLife(rpc::KubernetesSecretsSpec::Reader secrets);
// Returns the time from which all of them are valid.
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
    kj::Duration lifetime = kKubernetesLifetime;  // of issued certificates
  };
  explicit KubernetesController(Dependencies d)
      : deps(kj::mv(d)), renewal(deps.timer, deps.clock) {}

  kj::StringPtr name() const override { return "secrets.KubernetesController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;
  void wakeBy(kj::Function<void()> function) override { renewal.wakeBy(kj::mv(function)); }

 private:
  Dependencies deps;
  RenewalTimer renewal;

  kj::Promise<void> maintain(Store& store, KubernetesIdentity identity);
};

}  // namespace talos::machined
