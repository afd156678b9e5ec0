// A client of the API server at the endpoint of the cluster, or by the node's balancer if the
// config enables it, with the kubelet's own certificate, and so with the kubelet's rights. On a
// worker kubed has no other client.
//
// machined publishes the certificate (KubeletClients[kubelet]) while it is needed, and again when
// the kubelet has renewed it. Users of the client hold it by reference count.
#pragma once

#include "kubed/manifests/kubernetes-store-adapter.h"

namespace talos::kubed {

class KubeletAccess {
 public:
  // The store must outlive this object.
  KubeletAccess(StoreClient& store, SharedKube::Make make);
  KJ_DISALLOW_COPY_AND_MOVE(KubeletAccess);

  // Returns the client, or the error while there is no certificate.
  kj::OneOf<kj::Own<SharedKube>, kj::String> client();
  Signal& changes() { return changed; }

 private:
  SharedKube::Make make;
  Signal changed;
  kj::Maybe<kj::Own<SharedKube>> current;
  kj::String noClient = kj::str("waiting for the certificate of the kubelet");
  Watched<rpc::KubeletClientSpec> clients;

  void take();
};

// Inputs of the Node object on a worker.
class WorkerStoreAdapter final : public NodeStore {
 public:
  // Both must outlive this object.
  WorkerStoreAdapter(StoreClient& store, KubeletAccess& access);
  KJ_DISALLOW_COPY_AND_MOVE(WorkerStoreAdapter);

  kj::OneOf<kj::Own<SharedKube>, kj::String> client() override { return access.client(); }
  kj::OneOf<kj::Own<SharedKube>, kj::String> endpointClient() override { return access.client(); }
  kj::Maybe<ResourceOf<rpc::NodeSpecSpec>> node() const override;

 private:
  KubeletAccess& access;
  Watched<rpc::NodeSpecSpec> nodes;
};

}  // namespace talos::kubed
