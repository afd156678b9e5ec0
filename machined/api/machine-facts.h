// Facts about the machine, read from /proc and the cgroup tree for each call.
//
// These functions block (a process table of hundreds of files, a file system whose server is gone):
// they are for the thread pool. Both roots are parameters, so that tests can use their own.
#pragma once

#include "machined/api/proc-text.h"

namespace talos::machined {

// Returns the pids of all processes, sorted.
kj::Vector<int> pidsOf(kj::StringPtr proc);

struct ProcessFacts {
  ProcessStat stat;
  kj::String executable;  // empty for a kernel thread
  kj::String args;        // at most 4 KiB
};
// Returns the processes sorted by PID. A process that exits while it is being read is left out.
kj::Vector<ProcessFacts> readProcesses(kj::StringPtr proc);

// Returns the start time of the process, in milliseconds since the kernel's boot; nullptr if it has
// exited.
kj::Maybe<uint64_t> processStartMs(kj::StringPtr proc, int pid);

struct MountFacts {
  MountPoint mount;
  uint64_t size = 0, available = 0, free = 0;  // bytes
  uint64_t files = 0, filesFree = 0;           // inodes
  bool readOnly = false;
};
// Returns the mounts on directories, in mount order. A mount that cannot be examined fails the
// whole call, and the error names all such mounts. Mounts of network servers
// (common/kernel/network-file-systems.h) are not examined and have sizes of 0: a server that is
// away would block the other mounts, too.
kj::Vector<MountFacts> readMounts(kj::StringPtr proc);

struct ServiceCgroup {
  kj::String id;
  kj::String cgroup;  // below the root of the cgroup tree
};
struct ServiceStats {
  kj::String id;
  uint64_t memoryBytes = 0;  // without reclaimable memory (inactive file pages)
  uint64_t cpuNanoseconds = 0;
};
// Leaves out services whose cgroup is gone. On a host that also has version 1, the processor time
// is counted below `unified`, the memory below `memory`.
kj::Vector<ServiceStats> readStats(kj::StringPtr cgroups,
                                   kj::ArrayPtr<const ServiceCgroup> services);

}  // namespace talos::machined
