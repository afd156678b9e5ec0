// What machined's store says of Kubernetes, and how it is reached: the admin kubeconfig as a
// client, the certificate of etcd's clients, manifests, and what this node is to be there.
//
// The client is made anew when the kubeconfig changes; whoever uses it holds it.
#pragma once

#include "common/base/signal.h"
#include "common/kube/kube-client.h"
#include "common/tls/tls.h"
#include "common/wire/store-client.h"
#include "kubed/manifests/manifest-objects.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::kubed {

constexpr kj::StringPtr kOwner = "kubed"_kj;    // of what this program writes into the store
constexpr kj::StringPtr kExtras = "extras"_kj;  // the namespace of its manifests

// Counts those who hold it.
class SharedKube : public kj::Refcounted {
 public:
  using Make = kj::Function<kj::Own<kube::KubeClient>(kube::KubeAccess)>;
  explicit SharedKube(kj::Own<kube::KubeClient> client) : client(kj::mv(client)) {}
  kube::KubeClient& operator*() { return *client; }

 private:
  kj::Own<kube::KubeClient> client;
};

// What a node needs to keep its own object in Kubernetes.
class NodeBoard {
 public:
  virtual ~NodeBoard() noexcept(false) = default;
  // None, with the reason, when there is nothing to make it of.
  virtual kj::OneOf<kj::Own<SharedKube>, kj::String> client() = 0;
  virtual kj::Maybe<ResourceOf<rpc::NodeSpecSpec>> node() const = 0;
};

class KubernetesBoard final : public NodeBoard {
 public:
  // All outlive it. `changed` is raised after each change.
  KubernetesBoard(StoreClient& store, TlsEndpoint& etcd, SharedKube::Make make, Signal& changed);
  ~KubernetesBoard() noexcept(false) override;
  KJ_DISALLOW_COPY_AND_MOVE(KubernetesBoard);

  // Of the API server of this node itself, at its loopback address.
  kj::OneOf<kj::Own<SharedKube>, kj::String> client() override;
  // The same by the endpoint of the cluster: on a node that is not in the cluster's etcd yet no API
  // server runs.
  kj::OneOf<kj::Own<SharedKube>, kj::String> endpointClient();
  // Why manifests are not to be applied now; none: they are.
  kj::Maybe<kj::String> obstacle() const;
  // Of machined and of kubed. Valid until the loop runs again.
  kj::Vector<ManifestText> manifests() const;
  // The secret half of the bootstrap token; empty: not known yet.
  pki::Pem tokenSecret() const;
  kj::String hostname() const;
  kj::Maybe<ResourceOf<rpc::NodeSpecSpec>> node() const override;
  kj::Maybe<ResourceOf<rpc::ControlPlaneConfigSpec>> extraManifests() const;
  // The store has told which extra manifests are wanted, and which there are.
  bool extrasKnown() const { return configs.synced() && extraSpecs.synced(); }

  // The store has told of all manifests().
  bool manifestsKnown() const { return manifestSpecs.synced() && extraSpecs.synced(); }
  // Of what client() is made of; 0: of nothing.
  uint64_t secretsVersion() const;

 private:
  TlsEndpoint& etcd;
  SharedKube::Make make;
  Signal& changed;
  Watched<rpc::KubernetesSecretsSpec> secrets;
  Watched<rpc::EtcdSecretsSpec> etcdSecrets;
  Watched<rpc::KubeletSecretsSpec> kubeletSecrets;
  Watched<rpc::ManifestSpec> manifestSpecs, extraSpecs;
  Watched<rpc::BootstrapStatusSpec> bootstrap;
  Watched<rpc::HostnameSpecSpec> hostnames;
  Watched<rpc::NodeSpecSpec> nodes;
  Watched<rpc::ControlPlaneConfigSpec> configs;
  kj::Maybe<kj::Own<SharedKube>> current, far;
  kj::String noClient = kj::str("waiting for the certificates of Kubernetes");
  kj::Maybe<kj::String> noEtcd = kj::str("waiting for the certificate of etcd's clients");

  void takeKubeconfig();
  void takeEtcdCredentials();
};

}  // namespace talos::kubed
