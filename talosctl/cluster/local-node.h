// Nodes of a local cluster, as this host's root reaches them: containers through /proc/<pid>/root
// of their process 1, virtual machines through their API and files of the cluster's state folder.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cluster/context-cluster.h"

namespace talos::talosctl {

struct LocalTarget {
  kj::String address, name;
  kj::String endpoint;  // the host's address that leads to its API
  int pid;              // in this host's namespace, of its process 1, or of QEMU
  bool container;

  // Of a container.
  kj::String root() const { return kj::str("/proc/", pid, "/root"); }
  kj::String socket(kj::StringPtr program) const;  // .../run/talos/<program>.sock
};

// The cluster of the context. FailedPrecondition when it is not a local one of this host.
FoundCluster requireLocalCluster(Invocation& call);

// The nodes of --nodes, else all of the cluster's. FailedPrecondition for one that is off, NotFound
// when none has such a name or address.
kj::Promise<kj::Vector<LocalTarget>> localTargets(Invocation& call, FoundCluster& found);
// The same; FailedPrecondition for a virtual machine, too.
kj::Promise<kj::Vector<LocalTarget>> localContainers(Invocation& call, FoundCluster& found);

}  // namespace talos::talosctl
