// kubed's view of machined's store: the admin kubeconfig as a client, the certificate of etcd's
// clients, manifests, and the wanted Node object.
//
// The client is made anew when the kubeconfig changes; its users hold it by reference count.
#pragma once

#include "common/base/node-messages.h"
#include "common/base/signal.h"
#include "common/kube/kube-client.h"
#include "common/kube/manifest-objects.h"
#include "common/tls/tls.h"
#include "common/wire/store-client.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::kubed {

using kube::ManifestText;

constexpr kj::StringPtr kOwner = "kubed"_kj;  // of what this program writes into the store

// A reference-counted client.
class SharedKube : public kj::Refcounted {
 public:
  using Make = kj::Function<kj::Own<kube::KubeClient>(kube::KubeAccess)>;
  explicit SharedKube(kj::Own<kube::KubeClient> client) : client(kj::mv(client)) {}
  kube::KubeClient& operator*() { return *client; }

 private:
  kj::Own<kube::KubeClient> client;
};

// The inputs of the node's own object in Kubernetes.
class NodeStore {
 public:
  virtual ~NodeStore() noexcept(false) = default;
  // The error when the kubeconfig is missing or not valid.
  virtual kj::OneOf<kj::Own<SharedKube>, kj::String> client() = 0;
  // The same at the endpoint of the cluster.
  virtual kj::OneOf<kj::Own<SharedKube>, kj::String> endpointClient() = 0;
  virtual kj::Maybe<ResourceOf<rpc::NodeSpecSpec>> node() const = 0;
};

// Of those who ask Kubernetes about this node; all outlive them.
struct NodeDependencies {
  kj::Timer& timer;
  kj::Function<double()>& random;  // in [0,1)
  StoreClient& store;
  NodeStore& adapter;
  Signal& changed;  // of the adapter
};

class KubernetesStoreAdapter final : public NodeStore {
 public:
  // All outlive it. `changed` is raised after each change.
  KubernetesStoreAdapter(StoreClient& store, TlsEndpoint& etcd, SharedKube::Make make,
                         Signal& changed);
  ~KubernetesStoreAdapter() noexcept(false) override;
  KJ_DISALLOW_COPY_AND_MOVE(KubernetesStoreAdapter);

  // Connects to this node's own API server, at the loopback address.
  kj::OneOf<kj::Own<SharedKube>, kj::String> client() override;
  // Connects to the endpoint of the cluster: a node that has not joined the cluster's etcd yet runs
  // no API server. That of client() while the endpoint is not known.
  kj::OneOf<kj::Own<SharedKube>, kj::String> endpointClient() override;
  // The reason not to apply manifests now; none: apply them.
  kj::Maybe<kj::String> obstacle() const;
  // Returns the manifests of machined and of manifestd. Valid until the event loop runs again.
  kj::Vector<ManifestText> manifests() const;
  // The halves of the bootstrap token; empty: not known yet.
  struct Token {
    kj::String id;
    pki::Pem secret;
  };
  Token token() const;
  // PEM: the CA that signs the certificates of nodes; empty: not known yet.
  kj::String machineCa() const;
  kj::String hostname() const;
  kj::Maybe<ResourceOf<rpc::NodeSpecSpec>> node() const override;
  // The error of manifestd, which fetches the extra ones; empty: none. Valid as manifests().
  kj::StringPtr extraProblem() const;
  // The store has sent all manifests().
  bool manifestsKnown() const { return manifestSpecs.synced() && extraSpecs.synced(); }
  // The version of the secrets that client() is made of; 0: there are none.
  uint64_t secretsVersion() const;

 private:
  TlsEndpoint& etcd;
  SharedKube::Make make;
  Signal& changed;
  Watched<rpc::KubernetesSecretsSpec> secrets;
  Watched<rpc::EtcdSecretsSpec> etcdSecrets;
  Watched<rpc::KubeletSecretsSpec> kubeletSecrets;
  Watched<rpc::ManifestSpec> manifestSpecs, extraSpecs;
  Watched<rpc::ManifestStatusSpec> extraStatuses;
  Watched<rpc::BootstrapStatusSpec> bootstrap;
  Watched<rpc::HostnameSpecSpec> hostnames;
  Watched<rpc::NodeSpecSpec> nodes;
  kj::Maybe<kj::Own<SharedKube>> current, far;
  kj::String noClient = kj::str(messages::kWaitingFor, "the certificates of Kubernetes");
  kj::Maybe<kj::String> noEtcd =
      kj::str(messages::kWaitingFor, "the certificate of etcd's clients");

  void takeKubeconfig();
  void takeEtcdCredentials();
};

}  // namespace talos::kubed
