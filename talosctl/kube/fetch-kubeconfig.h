// A kubeconfig that a control-plane node makes for whoever asks, with a pair of its own.
#pragma once

#include "common/tls/pki.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// connect() first. Errors name the node.
kj::Promise<pki::Pem> fetchKubeconfig(Client& client, kj::StringPtr node, kj::Duration deadline);

}  // namespace talos::talosctl
