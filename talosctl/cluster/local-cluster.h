// The local clusters of this user, the cluster to which a context of the talosconfig leads, and its
// nodes.
//
// Commands without --state find a cluster wherever its state folder is: ~/.talos/cluster-folders
// has each folder that a `cluster create --state` has named, one a line. The file is replaced whole
// while its lock is held; after a crash a folder is in it or not. A folder that is gone, or without
// a cluster, means nothing and leaves the file with the next `create --state`.
#pragma once

#include "common/talosconfig/talosconfig.h"
#include "rpc/cluster.capnp.h"
#include "talosctl/cli/command.h"
#include "talosctl/cluster/nodes/cluster-state.h"

namespace talos::talosctl {

struct FoundCluster {
  kj::String name;
  cluster::StateDirectory state;
  kj::Own<capnp::MallocMessageBuilder> message;
  rpc::LocalCluster::Reader get() { return message->getRoot<rpc::LocalCluster>().asReader(); }
};

// Returns the names of the clusters of --state, sorted; their files may be unreadable.
kj::Array<kj::String> clusterNames(Invocation& call);

struct KnownCluster {
  kj::String name;
  cluster::StateDirectory state;
};

// Returns the clusters of --state; without this flag those of the default folder, then those of the
// remembered folders.
kj::Vector<KnownCluster> knownClusters(Invocation& call);

// Remembers the folder of --state, which has a cluster. Changes nothing for the default folder.
// Prints a note if HOME is not set, or if the file of the folders cannot be changed: the cluster
// runs without being remembered.
kj::Promise<void> rememberFolder(Invocation& call);

// Returns the local cluster with the CA of a context. nullptr if there is no such cluster, or if
// its files cannot be read.
kj::Maybe<FoundCluster> clusterOf(Invocation& call, const Context& context);
// Returns the cluster of the call's context. nullptr also without a talosconfig or a current
// context; throws if --context names an unknown context.
kj::Maybe<FoundCluster> clusterOfContext(Invocation& call);

// Nodes of a local cluster, as this host's root accesses them: containers through /proc/<pid>/root
// of their process 1, virtual machines through their API and files of the cluster's state folder.
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
