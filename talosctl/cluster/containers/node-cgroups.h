// The cgroups of container nodes, in every hierarchy of the host:
//
//   <root>/talos/<cluster>          the device filter (v2)
//   <root>/talos/<cluster>/<node>   limits of memory and CPU; frozen while the node is paused
//   <root>/talos/<cluster>/<node>/node   the root that the node sees: it cannot undo the above
//
// Hosts have cgroup v2, or v2 beside v1 ("hybrid", where the controllers are v1's). Cgroups are the
// only thing of a cluster that the kernel does not remove with its supervisor, so the name is made
// of the state folder: the next start or destroy of the cluster after a crash finds them.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "talosctl/cluster/containers/container-plan.h"

namespace talos::container {

// The hierarchies that this host has mounted.
struct CgroupLayout {
  kj::String unified;  // mount point of v2; empty: none
  struct V1 {
    kj::String mountPoint, controllers, folder;
  };
  kj::Vector<V1> v1;

  bool hybrid() const { return v1.size() > 0; }
  // As a node mounts them.
  kj::Array<CgroupMount> mounts() const;
};
// Of the text of /proc/self/mounts. Pure; what is mounted twice counts once.
CgroupLayout parseCgroups(kj::StringPtr mounts);
CgroupLayout readCgroups();

struct Limits {
  uint64_t memory = 0;     // bytes; 0: none
  unsigned milliCpus = 0;  // 1000: one CPU; 0: no limit
};

class ClusterCgroups {
 public:
  // `name` is the cluster's, made of its state folder. Makes nothing.
  ClusterCgroups(CgroupLayout layout, kj::StringPtr name);

  // Removes the cgroups of a supervisor that crashed, then creates the cluster's with the device
  // filter.
  // Throws kFailedPrecondition naming what the host lacks.
  void create();
  // The controllers that nodes do not get here: "memory", "cpu". The root passes the others on
  // then.
  kj::Vector<kj::String> unlimited() const;

  // Creates a node's cgroups. Returns descriptors of their cgroup.procs: a process that writes "0"
  // to each joins them.
  kj::Vector<kj::AutoCloseFd> createNode(kj::StringPtr node, const Limits& limits);
  // Freezes all processes of the node, or lets them continue. Returns when that has happened;
  // DeadlineExceeded after half a second, and then nothing is frozen.
  void freeze(kj::StringPtr node, bool on);
  void removeNode(kj::StringPtr node);
  // Kills the processes in them and removes them. Waits up to 5 s for the processes to end: they
  // die with their supervisor, but not in the same instant. Absent is fine. FailedPrecondition
  // names the processes that still run, of which nothing was removed then.
  void remove();

  kj::Array<CgroupMount> mounts() const { return layout.mounts(); }

 private:
  CgroupLayout layout;
  kj::String name;

  template <typename F>
  void eachRoot(F&& handle) const;
  kj::String unified(kj::StringPtr node) const;
};

}  // namespace talos::container
