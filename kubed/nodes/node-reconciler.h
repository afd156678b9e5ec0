// Keeps this node's object in Kubernetes as the config wants it (node-plan.h), and tells how the
// node is there: NodeStatuses[node].
//
// The object is watched, so what somebody else changes of ours is made good at once. What this node
// has no right to change is told instead. While the API is not to be reached, or there is no such
// object yet, it is tried again, after half a second and then after up to 10 s. Nothing is kept:
// after a crash the object is read anew.
#pragma once

#include "kubed/manifests/kubernetes-store-adapter.h"
#include "kubed/nodes/node-plan.h"
#include "kubed/nodes/watch-reconciler.h"

namespace talos::kubed {

// All outlive who uses them.
struct NodeWorld {
  kj::Timer& timer;
  kj::Function<double()>& random;  // in [0,1)
  StoreClient& store;
  NodeBoard& board;
  Signal& changed;  // of the board
};

class NodeKeeper {
 public:
  explicit NodeKeeper(NodeWorld world)
      : world(world), loop(world.timer, world.random, world.changed) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeKeeper);

  kj::Promise<void> run();  // until dropped

 private:
  // What is told of the node.
  struct Told {
    kj::String nodename;
    NodeState state;
    bool applied = false;
    kj::String message;
  };
  NodeWorld world;
  WatchLoop loop;
  Told told;

  // Until what is wanted changes.
  kj::Promise<void> follow();
  kj::Promise<void> watch(SharedKube& kubernetes, kj::StringPtr nodename);
  kj::Promise<void> adjust(SharedKube& kubernetes, const kube::Json& node);
  kj::Promise<void> tell(bool applied, kj::String message);
  kj::Promise<void> publish();
};

}  // namespace talos::kubed
