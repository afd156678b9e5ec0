// Keeps this node's object in Kubernetes as the config wants it (node-plan.h), and publishes the
// state of the node there: NodeStatuses[node].
//
// The object is watched, so changes of our labels and taints by others are corrected at once. The
// status lists the settings of the config that the object does not have: those that this node has
// no right to make, that another client has set, and that are reserved. While the API cannot be
// reached, or the kubelet has not registered the node, it retries, after 500 ms and then after up
// to 10 s. If the API server of this node does not answer, the next attempt goes to the endpoint of
// the cluster, and then back: a node that is joining has no API server yet, but must be known as a
// control plane from its registration on. A node whose config keeps it out of Kubernetes
// (machine.kubelet.skipNodeRegistration) has no status. Keeps no state: after a crash the object is
// read again.
#pragma once

#include "common/base/controller-log.h"
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
    kj::String error;  // why the object was not compared with the config
    kj::Vector<kj::String> notApplied;
    uint64_t specVersion = 0;  // of the NodeSpec with which it was compared; 0: with none
  };
  NodeDependencies deps;
  ControllerLog controller{"k8s.NodeApplyController"};
  Status status;
  bool useEndpoint = false;        // for the next attempt
  bool answered = false;           // the server has answered in this attempt
  kj::Own<SharedKube> kubernetes;  // the client that watches
  kj::Maybe<kube::Json> node;

  kj::Promise<kj::Maybe<Selection>> select() override;
  void startList() override {
    node = nullptr;
    answered = true;
  }
  void take(const kube::Json& object, bool deleted) override;
  kj::Promise<void> publish() override;
  kj::Promise<void> failed(kj::String error) override;
  kj::Promise<void> adjust(const kube::Json& object);
  kj::Promise<void> report();
  kj::Promise<void> withdraw();
  kj::Promise<void> reportError(kj::String error);
};

}  // namespace talos::kubed
