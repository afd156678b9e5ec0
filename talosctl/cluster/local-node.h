// Nodes of a local cluster, as this host's root accesses them: containers through /proc/<pid>/root
// of their process 1, virtual machines through their API and files of the cluster's state folder.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cluster/context-cluster.h"

namespace talos::talosctl {

struct LocalTarget {
  kj::String address, name;
  kj::String endpoint;  // address of the host that leads to its API
  int pid;              // pid in this host's namespace, of its process 1 or of QEMU
  bool container;

  // Returns the root of a container.
  kj::String root() const { return kj::str("/proc/", pid, "/root"); }
  kj::String socket(kj::StringPtr program) const;  // returns .../run/talos/<program>.sock
};

// Returns the cluster of the context. FailedPrecondition if it is not a local cluster of this host.
FoundCluster requireLocalCluster(Invocation& call);

// Returns the nodes of --nodes, otherwise all nodes of the cluster. FailedPrecondition if a node is
// off, NotFound for an unknown name or address.
kj::Promise<kj::Vector<LocalTarget>> localTargets(Invocation& call, FoundCluster& found);
// The same, but FailedPrecondition for a virtual machine, too.
kj::Promise<kj::Vector<LocalTarget>> localContainers(Invocation& call, FoundCluster& found);

}  // namespace talos::talosctl
