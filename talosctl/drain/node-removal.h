// The objects in Kubernetes of nodes that go for good: found while the nodes are still there,
// removed when they are not, so that no kubelet makes them anew.
#pragma once

#include "common/kube/kube-client.h"

namespace talos::talosctl {

class NodeRemoval {
 public:
  // Of these names or addresses. NotFound, naming it, when Kubernetes has no such node.
  static kj::Promise<kj::Own<NodeRemoval>> find(kube::KubeClient& kubernetes,
                                                kj::ArrayPtr<const kj::String> nodes);

  NodeRemoval(kube::KubeClient& kubernetes, size_t nodes) : kubernetes(kubernetes), found(nodes) {}
  KJ_DISALLOW_COPY_AND_MOVE(NodeRemoval);

  // By its index among those that were asked for.
  kj::StringPtr name(size_t index) const { return found[index].name; }
  // Another object that has got the name since stays. Errors say what is left to do.
  kj::Promise<void> remove(size_t index);

 private:
  struct Found {
    kj::String name, uid;
  };
  kube::KubeClient& kubernetes;
  kj::Vector<Found> found;
};

}  // namespace talos::talosctl
