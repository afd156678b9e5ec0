// Publishes the states of this node's static pods: StaticPodStatuses, one for each pod, with the
// pod's whole status as Kubernetes has it.
//
// The kubelet mirrors its static pods to the API server, and there they are watched. While the API
// server of this node does not answer, their condition Ready is Unknown, rather than what it was;
// the log has the error. Nothing is kept; after a crash it starts with the statuses in the store.
#pragma once

#include "kubed/nodes/watch-reconciler.h"

namespace talos::kubed {

struct StaticPodStatus {
  kj::String id;  // kube-system/kube-apiserver-master-1
  kube::Json status;
};
// None: the pod is not a static one. Pure.
kj::Maybe<StaticPodStatus> staticPodStatus(const kube::Json& pod);
// Makes the condition Ready of a pod's status Unknown.
void setUnknown(kube::Json& status);

class StaticPodReconciler final : public MirrorReconciler<rpc::StaticPodStatusSpec, kube::Json> {
 public:
  explicit StaticPodReconciler(const KubedDependencies& deps)
      : MirrorReconciler(deps), adapter(deps.adapter) {}
  ~StaticPodReconciler() noexcept(false) = default;

 private:
  KubernetesStoreAdapter& adapter;
  bool recalled = false;  // `known` has the statuses in the store, or newer ones
  kj::String logged;      // the last error

  kj::Promise<kj::Maybe<Selection>> select() override;
  void startList() override;
  kj::Maybe<Entry> entryOf(const kube::Json& pod) override;
  void fill(const kube::Json& status, rpc::StaticPodStatusSpec::Builder spec) override;
  void watchStarted() override { logged = kj::str(); }
  kj::Promise<void> failed(kj::String error) override;
  kj::Promise<void> recall();
  kj::Promise<void> publishUnknown();
};

}  // namespace talos::kubed
