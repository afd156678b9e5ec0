// kubed's view of machined's store: the admin kubeconfig as a client, the certificate of etcd's
// clients, manifests, and the desired Node object.
//
// A new client is made when the kubeconfig changes; its users hold it by reference count.
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

constexpr kj::StringPtr kOwner = "kubed"_kj;  // owner of the resources that this program writes

// A reference-counted client.
class SharedKube : public kj::Refcounted {
 public:
  using Make = kj::Function<kj::Own<kube::KubeClient>(kube::KubeAccess)>;
  explicit SharedKube(kj::Own<kube::KubeClient> client) : client(kj::mv(client)) {}
  kube::KubeClient& operator*() { return *client; }

 private:
  kj::Own<kube::KubeClient> client;
};

// Inputs of the node's own object in Kubernetes.
class NodeStore {
 public:
  virtual ~NodeStore() noexcept(false) = default;
  // Returns the client, or the error if the kubeconfig is missing or not valid.
  virtual kj::OneOf<kj::Own<SharedKube>, kj::String> client() = 0;
  // Returns a client of the endpoint of the cluster, in the same way.
  virtual kj::OneOf<kj::Own<SharedKube>, kj::String> endpointClient() = 0;
  virtual kj::Maybe<ResourceOf<rpc::NodeSpecSpec>> node() const = 0;
};

// Dependencies of the reconcilers of this node's object; all must outlive them.
struct NodeDependencies {
  kj::Timer& timer;
  kj::Function<double()>& random;  // in [0,1)
  StoreClient& store;
  NodeStore& adapter;
  Signal& changed;  // signal of the adapter
};

class KubernetesStoreAdapter final : public NodeStore {
 public:
  // All arguments must outlive this object. `changed` is raised after each change.
  KubernetesStoreAdapter(StoreClient& store, TlsEndpoint& etcd, SharedKube::Make make,
                         Signal& changed);
  ~KubernetesStoreAdapter() noexcept(false) override;
  KJ_DISALLOW_COPY_AND_MOVE(KubernetesStoreAdapter);

  // Connects to this node's own API server, at the loopback address.
  kj::OneOf<kj::Own<SharedKube>, kj::String> client() override;
  // Connects to the endpoint of the cluster: a node that has not joined the cluster's etcd yet runs
  // no API server. Returns client() while the endpoint is not known.
  kj::OneOf<kj::Own<SharedKube>, kj::String> endpointClient() override;
  // Returns the cause for not applying manifests now; nullptr to apply them.
  kj::Maybe<kj::String> obstacle() const;
  // Returns the manifests of machined and of manifestd. Valid until the event loop runs again.
  kj::Vector<ManifestText> manifests() const;
  // Halves of the bootstrap token; empty while unknown.
  struct Token {
    kj::String id;
    pki::Pem secret;
  };
  Token token() const;
  // Returns the CA that signs the certificates of nodes, as PEM; empty while unknown.
  kj::String machineCa() const;
  kj::String hostname() const;
  kj::Maybe<ResourceOf<rpc::NodeSpecSpec>> node() const override;
  // Returns the error of manifestd, which fetches the extra manifests; empty without an error.
  // Valid as long as manifests().
  kj::StringPtr extraProblem() const;
  // Returns true if the store has sent all manifests().
  bool manifestsKnown() const { return manifestSpecs.synced() && extraSpecs.synced(); }
  // Returns the version of the secrets from which client() is made; 0 if they do not exist.
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
