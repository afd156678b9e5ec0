// Facts about the machine, read from /proc and the cgroup tree as they are at this moment.
//
// These functions block (a process table of hundreds of files, a file system whose server is gone):
// they are for the thread pool. Both roots are passed in, so that tests bring their own.
#pragma once

#include "machined/api/proc-text.h"

namespace talos::machined {

struct ProcessFacts {
  ProcessStat stat;
  kj::String executable;  // empty for a kernel thread
  kj::String args;        // at most 4 KiB
};
// Sorted by pid. A process that ends while it is being read is left out.
kj::Vector<ProcessFacts> readProcesses(kj::StringPtr proc);

// When the process started, in milliseconds since the kernel's boot; none when it is gone.
kj::Maybe<uint64_t> processStartMs(kj::StringPtr proc, int pid);

struct MountFacts {
  MountPoint mount;
  uint64_t size = 0, available = 0, free = 0;  // bytes
  uint64_t files = 0, filesFree = 0;           // inodes
  bool readOnly = false;
};
// The mounts on directories, in mount order. One that cannot be asked fails the whole, naming all
// that could not. Those of servers (common/kernel/network-file-systems.h) are not asked and have
// sizes of 0: with one that is away the rest could not be read, either.
kj::Vector<MountFacts> readMounts(kj::StringPtr proc);

struct ServiceCgroup {
  kj::String id;
  kj::String cgroup;  // below the root of the cgroup tree
};
struct ServiceStats {
  kj::String id;
  uint64_t memoryBytes = 0;  // without what the kernel can drop at once (inactive file pages)
  uint64_t cpuNanoseconds = 0;
};
// Services whose cgroup is gone are left out. On a host that has version 1 beside it, the
// processor's time is counted below `unified`, the memory below `memory`.
kj::Vector<ServiceStats> readStats(kj::StringPtr cgroups,
                                   kj::ArrayPtr<const ServiceCgroup> services);

}  // namespace talos::machined
