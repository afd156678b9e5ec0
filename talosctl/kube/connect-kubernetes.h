// Connects to Kubernetes' API, with an admin kubeconfig from a control-plane node.
#pragma once

#include <kj/function.h>

#include "common/kube/kube-client.h"
#include "common/kube/received-kubeconfig.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

struct KubeRoute {
  kj::StringPtr server = "";  // host that replaces the kubeconfig's, port 6443
  // If this server does not answer, connects through an endpoint of the client, first through the
  // connected endpoint. Endpoints are control-plane nodes that this host can reach, unlike possibly
  // the kubeconfig's address.
  bool orEndpoint = false;
  // Called with the address ("10.5.0.2:6443") of the first connection, and of each connection to
  // another address.
  kj::Function<void(kj::StringPtr)> reached = [](kj::StringPtr) {};
};

// Returns a client with the kubeconfig of this node; empty: of the endpoint. The client connects
// later, but `client` is connected within the deadline. Over any route, the server must have the
// certificate of the kubeconfig's server.
kj::Promise<kj::Own<kube::KubeClient>> connectKubernetes(Client& client, kj::StringPtr node,
                                                         KubeRoute route, kj::Duration deadline);

// Fetches the kubeconfig of this control-plane node, with its own key and certificate; empty: of
// the endpoint. connect() first. Errors name the node, including the error for an answer with
// fields that a client must not accept from a node.
kj::Promise<kube::ReceivedKubeconfig> fetchKubeconfig(Client& client, kj::StringPtr node,
                                                      kj::Duration deadline);

}  // namespace talos::talosctl
