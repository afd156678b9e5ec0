// Asks a node for the state that an Outcome needs.
#pragma once

#include "talosctl/cli/node-outcome.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// Through the client's connection; connect() first. Rejects when the node does not answer; the
// caller then asks outcome.silent().
kj::Promise<Judgement> judge(Client& client, kj::StringPtr node, Outcome& outcome);

}  // namespace talos::talosctl
