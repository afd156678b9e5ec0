// The cgroups of container nodes, in every hierarchy of the host:
//
//   <root>/talos/<cluster>          the device filter (v2)
//   <root>/talos/<cluster>/<node>   limits of memory and CPU; frozen while the node is paused
//   <root>/talos/<cluster>/<node>/node   what the node sees as its root: it cannot undo the above
//
// Hosts with cgroup v2, or with v2 beside v1 ("hybrid", where the controllers are v1's). They are
// the only thing of a cluster that the kernel does not remove with its supervisor, so the name is
// made of the state folder: whoever starts or destroys the cluster after a crash finds them.
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

  // Removes what a dead supervisor left, then makes the cluster's cgroup with the device filter.
  // Throws kFailedPrecondition naming what the host lacks.
  void create();
  // What this host cannot limit: "memory", "cpu".
  kj::Vector<kj::String> unlimited() const;

  // Makes a node's cgroups. The descriptors of cgroup.procs: who writes "0" to each is in.
  kj::Vector<kj::AutoCloseFd> createNode(kj::StringPtr node, const Limits& limits);
  // Stops all processes of the node where they are, or lets them continue. Returns when it is so;
  // DeadlineExceeded after half a second, and then nothing is stopped.
  void freeze(kj::StringPtr node, bool on);
  void removeNode(kj::StringPtr node);
  // Kills what is still in there and removes all of it. Waits up to 5 s for the processes to be
  // gone: they die with their supervisor, but not in the same instant. Absent is fine.
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
