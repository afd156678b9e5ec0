// Publishes the addresses at which Kubernetes reaches its API servers: Endpoints[kube-apiserver].
// On a worker these are the control-plane nodes that it knows beside the endpoint in its config:
// its apid requests certificates from their trustd, and its balancer (kubed/balancer) uses their
// API servers.
//
// A kubelet may read this one object but not watch it, so it is read again every few minutes and
// when the access changes. While the API cannot be reached, and after a crash, the last known
// addresses stay: a node remains in the list as long as the API does not answer.
#pragma once

#include "common/base/backoff.h"
#include "kubed/manifests/kubernetes-store-adapter.h"

namespace talos::kubed {

constexpr kj::StringPtr kApiEndpointsId = "kube-apiserver"_kj;

// Returns the addresses of the object Endpoints default/kubernetes: valid ones, sorted, each once.
// Pure.
kj::Vector<kj::String> apiAddressesOf(const kube::Json& endpoints);
// Returns the first port that the object names; 0 without a valid one. Pure.
uint16_t apiPortOf(const kube::Json& endpoints);

class ApiEndpointsReconciler {
 public:
  explicit ApiEndpointsReconciler(NodeDependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(ApiEndpointsReconciler);

  kj::Promise<void> run();  // until dropped

 private:
  NodeDependencies deps;
  Backoff backoff;
  kj::String logged;  // last error

  kj::Promise<void> refresh(SharedKube& kubernetes);
};

}  // namespace talos::kubed
