// Nodes of a local cluster that are containers, as this host's root reaches them: through
// /proc/<pid>/root of their process 1.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cluster/context-cluster.h"

namespace talos::talosctl {

struct LocalContainer {
  kj::String address, name;
  int pid;  // of its process 1, in this host's namespace

  kj::String root() const { return kj::str("/proc/", pid, "/root"); }
  kj::String socket(kj::StringPtr program) const;  // .../run/talos/<program>.sock
};

// The cluster of the context. FailedPrecondition when it is not a local one of this host.
FoundCluster requireLocalCluster(Invocation& call);

// The nodes of --nodes, else all of the cluster's. FailedPrecondition for one that is off or is a
// virtual machine, NotFound when none has such a name or address.
kj::Promise<kj::Vector<LocalContainer>> localContainers(Invocation& call, FoundCluster& found);

}  // namespace talos::talosctl
