// Fetches a kubeconfig from a control-plane node, with a key and a certificate of its own.
#pragma once

#include "common/tls/pki.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// connect() first. Errors name the node.
kj::Promise<pki::Pem> fetchKubeconfig(Client& client, kj::StringPtr node, kj::Duration deadline);

}  // namespace talos::talosctl
