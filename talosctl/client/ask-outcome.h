// Requests the state of a node that an Outcome needs.
#pragma once

#include "talosctl/cli/node-outcome.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

// Judges the node through the client's connection; connect() first. Rejects if the node does not
// answer; the caller then calls outcome.silent().
kj::Promise<Judgement> judge(Client& client, kj::StringPtr node, Outcome& outcome);

}  // namespace talos::talosctl
