// Asks several nodes at once for their facts (common/health/node-facts.h).
#pragma once

#include "common/health/node-facts.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// In the order of `nodes`. Dials within the same deadline if there is no connection: without one,
// every node is silent, for that reason.
kj::Promise<kj::Array<NodeFacts>> askFacts(Client& client, kj::ArrayPtr<const kj::String> nodes,
                                           kj::Duration deadline);

}  // namespace talos::talosctl
