// Requests the facts of several nodes at once (common/health/node-facts.h).
#pragma once

#include "common/health/node-facts.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// Returns the facts in the order of `nodes`. Connects within the same deadline if there is no
// connection; if this fails, every node counts as silent, with the same reason.
kj::Promise<kj::Array<NodeFacts>> askFacts(Client& client, kj::ArrayPtr<const kj::String> nodes,
                                           kj::Duration deadline);

}  // namespace talos::talosctl
