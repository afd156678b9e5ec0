// Fetches a kubeconfig from a control-plane node, with a key and a certificate of its own.
#pragma once

#include "common/kube/received-kubeconfig.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// connect() first. Of this node; empty: of the endpoint. Errors name the node, also that of an
// answer with more in it than a client may take from a node.
kj::Promise<kube::ReceivedKubeconfig> fetchKubeconfig(Client& client, kj::StringPtr node,
                                                      kj::Duration deadline);

}  // namespace talos::talosctl
