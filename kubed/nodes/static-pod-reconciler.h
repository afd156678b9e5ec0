// Tells how the static pods of this node are: StaticPodStatuses, one for each, with the pod's whole
// status as Kubernetes has it.
//
// The kubelet mirrors its static pods to the API server, and there they are watched. So they are
// told as soon as they change, and while the API server of this node does not answer their
// condition Ready is Unknown, rather than what it was: the log says why. Tried again after half a
// second and then after up to 10 s. Nothing is kept; after a crash it begins with what the store
// has.
#pragma once

#include "kubed/nodes/watch-reconciler.h"

namespace talos::kubed {

// Of a pod that is a static one; none: it is not. Pure.
struct StaticPodStatus {
  kj::String id;  // kube-system/kube-apiserver-master-1
  kube::Json status;
};
kj::Maybe<StaticPodStatus> staticPodStatus(const kube::Json& pod);
// As long as nobody knows.
void setUnknown(kube::Json& status);

class StaticPodKeeper {
 public:
  explicit StaticPodKeeper(KubedWorld world)
      : world(world), loop(world.timer, world.random, world.changed) {}
  KJ_DISALLOW_COPY_AND_MOVE(StaticPodKeeper);

  kj::Promise<void> run();  // until dropped

 private:
  KubedWorld world;
  WatchLoop loop;
  kj::TreeMap<kj::String, kube::Json> known;  // status by id
  bool recalled = false;                      // what the store has is in it, or something newer
  kj::String told;                            // why they are not known

  kj::Promise<void> follow();  // until what is wanted changes
  void take(const kube::Json& pod, bool deleted);
  kj::Promise<void> recall();
  kj::Promise<void> publish();
  kj::Promise<void> publishUnknown();
};

}  // namespace talos::kubed
