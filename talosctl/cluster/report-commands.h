// `talosctl support` and `talosctl crashdump`, for nodes of any cluster; for local ones with the
// consoles and configs on this host.
#pragma once

#include "rpc/cluster.capnp.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addReportCommands(Command& root);

// `cluster create --crashdump`: prints the logs of a cluster that did not come up, to stderr. Never
// rejects.
kj::Promise<void> dumpLocalCluster(Invocation& call, kj::StringPtr stateFolder);

}  // namespace talos::talosctl
