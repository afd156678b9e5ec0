// Observes a cluster from a client: nodes through its endpoints, Kubernetes through one of them or
// directly.
#pragma once

#include "common/health/run-health.h"
#include "common/kube/kube-client.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// Asks kubed of this node; empty: of the endpoint.
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

// Asks the API server itself, with a kubeconfig that the node gives (empty: the endpoint) when it
// is asked for the first time. `server`: a host instead of the one in it, port 6443; else, where
// that one does not answer, through the endpoints. `reached` gets the address that is asked.
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
