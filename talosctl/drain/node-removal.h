// Removes the Kubernetes objects of nodes that leave for good: finds them while the nodes still
// exist, and removes them afterwards, so that no kubelet creates them again.
#pragma once

#include "common/kube/kube-client.h"

namespace talos::talosctl {

class NodeRemoval {
 public:
  // Finds the nodes by names or addresses. NotFound, naming the node, if Kubernetes does not have
  // it.
  static kj::Promise<kj::Own<NodeRemoval>> find(kube::KubeClient& kubernetes,
                                                kj::ArrayPtr<const kj::String> nodes);

  NodeRemoval(kube::KubeClient& kubernetes, size_t nodes) : kubernetes(kubernetes), found(nodes) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeRemoval);

  // Returns a name by the index of its request.
  kj::StringPtr name(size_t index) const { return found[index].name; }
  // Removes the object, unless another object has the name since. Errors say what is left to do.
  kj::Promise<void> remove(size_t index);

 private:
  struct Found {
    kj::String name, uid;
  };
  kube::KubeClient& kubernetes;
  kj::Vector<Found> found;
};

}  // namespace talos::talosctl
