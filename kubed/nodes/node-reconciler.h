// Keeps this node's object in Kubernetes as the config wants it (node-plan.h), and publishes the
// state of the node there: NodeStatuses[node].
//
// The object is watched, so a change of our labels and taints by somebody else is corrected at
// once. What this node has no right to change is in the status's message. While the API cannot be
// reached, or the kubelet has not registered the node, it retries, after 500 ms and then after up
// to 10 s. Nothing is kept: after a crash the object is read anew.
#pragma once

#include "kubed/manifests/kubernetes-store-adapter.h"
#include "kubed/nodes/node-plan.h"
#include "kubed/nodes/watch-reconciler.h"

namespace talos::kubed {

class NodeReconciler final : public WatchReconciler {
 public:
  explicit NodeReconciler(NodeDependencies deps)
      : WatchReconciler(deps.timer, deps.random, deps.changed), deps(deps) {}
  ~NodeReconciler() noexcept(false) = default;

 private:
  struct Status {
    kj::String nodename;
    NodeState state;
    bool applied = false;
    kj::String message;
  };
  NodeDependencies deps;
  Status status;
  kj::Own<SharedKube> kubernetes;  // that is watched
  kj::Maybe<kube::Json> node;

  kj::Promise<kj::Maybe<Selection>> select() override;
  void startList() override { node = nullptr; }
  void take(const kube::Json& object, bool deleted) override;
  kj::Promise<void> publish() override;
  kj::Promise<void> failed(kj::String error) override;
  kj::Promise<void> adjust(const kube::Json& object);
  kj::Promise<void> report(bool applied, kj::String message);
};

}  // namespace talos::kubed
