// Publishes the states of this node's static pods: StaticPodStatuses, one for each pod, with the
// pod's whole status as Kubernetes has it.
//
// The kubelet mirrors its static pods to the API server, which this reconciler watches. While the
// API server of this node does not answer, their condition Ready is Unknown, instead of the last
// known value; the log has the error. The status of a pod whose definition is being torn down is
// then removed: the definition waits for the removal (k8s.KubeletStaticPodController of machined),
// and an API server that ends would never report its own end. Keeps no state; after a crash it
// starts with the statuses in the store.
#pragma once

#include "common/base/controller-log.h"
#include "kubed/nodes/watch-reconciler.h"

namespace talos::kubed {

struct StaticPodStatus {
  kj::String id;  // kube-system/kube-apiserver-master-1
  kube::Json status;
};
// Returns nullptr if the pod is not static. Pure.
kj::Maybe<StaticPodStatus> staticPodStatus(const kube::Json& pod);
// Makes the condition Ready of a pod's status Unknown.
void setUnknown(kube::Json& status);
// Returns the id of the status of a definition's pod.
kj::String staticPodStatusId(kj::StringPtr definition, kj::StringPtr nodename);

class StaticPodReconciler final : public MirrorReconciler<rpc::StaticPodStatusSpec, kube::Json> {
 public:
  explicit StaticPodReconciler(const KubedDependencies& deps);
  ~StaticPodReconciler() noexcept(false) = default;

 private:
  kj::Timer& timer;
  KubernetesStoreAdapter& adapter;
  ControllerLog controller{"k8s.KubeletStaticPodController"};
  Watched<rpc::StaticPodSpec> definitions;
  bool recalled = false;  // `known` has the statuses in the store, or newer ones

  kj::Promise<kj::Maybe<Selection>> select() override;
  void startList() override;
  kj::Maybe<Entry> entryOf(const kube::Json& pod) override;
  void fill(const kube::Json& status, rpc::StaticPodStatusSpec::Builder spec) override;
  void watchStarted() override { controller.succeeded(); }
  kj::Promise<void> failed(kj::String error) override;
  kj::Promise<void> recall();
  kj::Promise<void> publishUnknown();
};

}  // namespace talos::kubed
