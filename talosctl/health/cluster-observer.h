// Observes a cluster from a client: nodes through its endpoints, Kubernetes through an endpoint or
// directly.
#pragma once

#include "common/health/run-health.h"
#include "common/kube/kube-client.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// Observes Kubernetes through kubed of this node; empty: of the endpoint.
class NodeObserver final : public HealthObserver {
 public:
  NodeObserver(Client& client, kj::StringPtr node) : client(client), node(kj::str(node)) {}
  kj::Promise<kj::Array<NodeFacts>> nodes(kj::ArrayPtr<const kj::String> names,
                                          kj::Duration deadline) override;
  kj::Promise<Survey> survey(kj::Duration deadline) override;

 private:
  Client& client;
  kj::String node;
};

// Observes Kubernetes through the API server itself, with a kubeconfig that the node (empty: the
// endpoint) returns at the first use. `server`: a host that replaces the kubeconfig's, port 6443;
// otherwise, if the kubeconfig's server does not answer, the endpoints are used. `reached` is
// called with the address in use.
class ApiObserver final : public HealthObserver {
 public:
  ApiObserver(Client& client, kj::StringPtr node, kj::StringPtr server,
              kj::Function<void(kj::StringPtr)> reached)
      : client(client), node(kj::str(node)), server(kj::str(server)), reached(kj::mv(reached)) {}
  kj::Promise<kj::Array<NodeFacts>> nodes(kj::ArrayPtr<const kj::String> names,
                                          kj::Duration deadline) override;
  kj::Promise<Survey> survey(kj::Duration deadline) override;

 private:
  Client& client;
  kj::String node, server;
  kj::Function<void(kj::StringPtr)> reached;
  kj::Maybe<kj::Own<kube::KubeClient>> kubernetes;
};

}  // namespace talos::talosctl
