// Does what machined wishes of this node in Kubernetes (NodeDrains[node]) and tells how far it is
// (NodeDrainStatuses[node]), with the client certificate of the kubelet (KubeletClients[kubelet]),
// so it may no more than the kubelet itself: on a worker it has no other.
//
// A wish is carried out once. One with another number takes the place of what is under way. After a
// crash the newest wish is carried out again as a whole (node-drainer.h).
#pragma once

#include "kubed/nodes/kubelet-access.h"
#include "kubed/nodes/node-drainer.h"

namespace talos::kubed {

class NodeDrainKeeper {
 public:
  // All outlive it.
  NodeDrainKeeper(kj::Timer& timer, kj::Function<double()>& random, StoreClient& store,
                  KubeletAccess& kubelet);
  KJ_DISALLOW_COPY_AND_MOVE(NodeDrainKeeper);

  kj::Promise<void> run();  // until dropped

 private:
  kj::Timer& timer;
  StoreClient& store;
  Signal wished, progressed;
  NodeDrainer drainer;
  uint64_t carriedOut = 0;  // the wish
  Watched<rpc::NodeDrainSpec> wishes;

  uint64_t wish() const;  // its number; 0: none
  kj::Promise<void> carryOut(uint64_t number);
  kj::Promise<void> replaced(uint64_t number);
  kj::Promise<void> publishAsItGoes(uint64_t number);
  kj::Promise<void> publish(uint64_t number);  // resolves when it is told
};

}  // namespace talos::kubed
