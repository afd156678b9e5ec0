// Fetches a kubeconfig from a control-plane node, with its own key and certificate.
#pragma once

#include "common/kube/received-kubeconfig.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// Fetches the kubeconfig of this node; empty: of the endpoint. connect() first. Errors name the
// node, including the error for an answer with fields that a client must not accept from a node.
kj::Promise<kube::ReceivedKubeconfig> fetchKubeconfig(Client& client, kj::StringPtr node,
                                                      kj::Duration deadline);

}  // namespace talos::talosctl
