// The commands `talosctl support` and `talosctl crashdump`, for nodes of any cluster; for local
// clusters they include the consoles and configs on this host.
#pragma once

#include "rpc/cluster.capnp.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addReportCommands(Command& root);

// Prints the logs of a cluster that did not come up to stderr, for `cluster create --crashdump`.
// Never rejects.
kj::Promise<void> dumpLocalCluster(Invocation& call, kj::StringPtr stateFolder);

}  // namespace talos::talosctl
