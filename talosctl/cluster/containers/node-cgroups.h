// The cgroups of container nodes, in every hierarchy of the host:
//
//   <root>/talos/<cluster>          the device filter (v2)
//   <root>/talos/<cluster>/<node>   limits of memory and CPU; frozen while the node is paused
//   <root>/talos/<cluster>/<node>/node   the root that the node sees: it cannot undo the above
//
// Hosts have cgroup v2, or v2 beside v1 ("hybrid", where the controllers belong to v1). Cgroups are
// the only part of a cluster that the kernel does not remove with its supervisor. Therefore their
// name is derived from the state folder: after a crash, the next start or destroy of the cluster
// finds them.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "talosctl/cluster/containers/container-plan.h"

namespace talos::container {

// The hierarchies that this host has mounted.
struct CgroupLayout {
  kj::String unified;  // mount point of v2; empty: not mounted
  struct V1 {
    kj::String mountPoint, controllers, folder;
  };
  kj::Vector<V1> v1;

  bool hybrid() const { return v1.size() > 0; }
  // Returns the hierarchies as a node mounts them.
  kj::Array<CgroupMount> mounts() const;
};
// Parses the text of /proc/self/mounts. Pure; a hierarchy that is mounted twice counts once.
CgroupLayout parseCgroups(kj::StringPtr mounts);
CgroupLayout readCgroups();

struct Limits {
  uint64_t memory = 0;     // bytes; 0: no limit
  unsigned milliCpus = 0;  // 1000: one CPU; 0: no limit
};

class ClusterCgroups {
 public:
  // `name` is the cluster's name, derived from its state folder. The constructor creates nothing.
  ClusterCgroups(CgroupLayout layout, kj::StringPtr name);

  // Removes the cgroups of a supervisor that crashed, then creates the cluster's cgroups with the
  // device filter. Throws kFailedPrecondition naming the feature that the host lacks.
  void create();
  // Returns the controllers that nodes do not get here: "memory", "cpu". The root then passes on
  // the others.
  kj::Vector<kj::String> unlimited() const;

  // Creates a node's cgroups. Returns descriptors of their cgroup.procs: a process that writes "0"
  // to each joins the cgroups.
  kj::Vector<kj::AutoCloseFd> createNode(kj::StringPtr node, const Limits& limits);
  // Freezes all processes of the node, or lets them continue, and returns afterwards.
  // DeadlineExceeded after half a second; then nothing is frozen.
  void freeze(kj::StringPtr node, bool on);
  void removeNode(kj::StringPtr node);
  // Kills the processes in the cgroups and removes the cgroups, if they exist. Waits up to 5 s for
  // the processes to end: they die with their supervisor, but not at the same instant.
  // FailedPrecondition names the processes that still run; then nothing is removed.
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
