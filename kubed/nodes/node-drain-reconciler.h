// Carries out machined's requests to drain or uncordon this node (NodeDrains[node]) and publishes
// the progress (NodeDrainStatuses[node]). It uses the client certificate of the kubelet
// (KubeletClients[kubelet]), so it has the kubelet's rights only: a worker has no other
// certificate.
//
// A request is carried out once. A request with another number replaces the running one. After a
// crash the newest request is carried out again as a whole (node-drainer.h).
#pragma once

#include "kubed/nodes/kubelet-access.h"
#include "kubed/nodes/node-drainer.h"

namespace talos::kubed {

class NodeDrainReconciler {
 public:
  // All arguments must outlive this object.
  NodeDrainReconciler(kj::Timer& timer, kj::Function<double()>& random, StoreClient& store,
                      KubeletAccess& kubelet);
  KJ_DISALLOW_COPY_AND_MOVE(NodeDrainReconciler);

  kj::Promise<void> run();  // until dropped

 private:
  kj::Timer& timer;
  StoreClient& store;
  Signal requestChanged, progressed;
  NodeDrainer drainer;
  uint64_t carriedOut = 0;  // number of the request
  Watched<rpc::NodeDrainSpec> requests;

  uint64_t requestedNumber() const;  // 0 without a request
  kj::Promise<void> carryOut(uint64_t number);
  kj::Promise<void> replaced(uint64_t number);
  kj::Promise<void> publishChanges(uint64_t number);
  kj::Promise<void> publish(uint64_t number);  // resolves when it is stored
};

}  // namespace talos::kubed
