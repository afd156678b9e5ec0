// talosctl support and crashdump: about nodes of any cluster, and with consoles and configs of this
// host about those of local ones.
#pragma once

#include "rpc/cluster.capnp.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addReportCommands(Command& root);

// Of `cluster create --crashdump`, on stderr: a cluster that did not come up. Never rejects.
kj::Promise<void> dumpLocalCluster(Invocation& call, kj::StringPtr stateFolder);

}  // namespace talos::talosctl
