// Publishes the addresses at which Kubernetes reaches its API servers: Endpoints[kube-apiserver].
// On a worker these are the control-plane nodes that it knows beside the endpoint in its config,
// and its apid asks their trustd for certificates.
//
// A kubelet may read this one object but not watch it, so it is read again every few minutes and
// when the access changes. While the API cannot be reached, and after a crash, the last known
// addresses stay: a node does not leave the control plane because nobody can be asked.
#pragma once

#include "common/base/backoff.h"
#include "kubed/manifests/kubernetes-store-adapter.h"

namespace talos::kubed {

constexpr kj::StringPtr kApiEndpointsId = "kube-apiserver"_kj;

// Of the object Endpoints default/kubernetes: valid addresses, sorted, each once. Pure.
kj::Vector<kj::String> apiAddressesOf(const kube::Json& endpoints);

class ApiEndpointsReconciler {
 public:
  explicit ApiEndpointsReconciler(NodeDependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(ApiEndpointsReconciler);

  kj::Promise<void> run();  // until dropped

 private:
  NodeDependencies deps;
  Backoff backoff;
  kj::String logged;  // the last error

  kj::Promise<void> refresh(SharedKube& kubernetes);
};

}  // namespace talos::kubed
