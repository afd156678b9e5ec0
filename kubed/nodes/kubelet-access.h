// The kubelet's own certificate as a way to the API server at the endpoint of the cluster: with it
// kubed may what the kubelet may. On a worker it has no other.
//
// machined offers it (KubeletClients[kubelet]) while it is needed, and anew when the kubelet has
// renewed it. Whoever uses the client holds it.
#pragma once

#include "kubed/manifests/kubernetes-store-adapter.h"

namespace talos::kubed {

class KubeletAccess {
 public:
  // The store outlives it.
  KubeletAccess(StoreClient& store, SharedKube::Make make);
  KJ_DISALLOW_COPY_AND_MOVE(KubeletAccess);

  // None, with the reason, while there is no certificate.
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

// What a worker's kubed knows of the node's object.
class WorkerBoard final : public NodeBoard {
 public:
  // Both outlive it.
  WorkerBoard(StoreClient& store, KubeletAccess& access);
  KJ_DISALLOW_COPY_AND_MOVE(WorkerBoard);

  kj::OneOf<kj::Own<SharedKube>, kj::String> client() override { return access.client(); }
  kj::Maybe<ResourceOf<rpc::NodeSpecSpec>> node() const override;

 private:
  KubeletAccess& access;
  Watched<rpc::NodeSpecSpec> nodes;
};

}  // namespace talos::kubed
