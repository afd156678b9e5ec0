// The kernel's figures for the control groups of a process: for nodes in containers, where
// containerd finds no groups if version 1 is mounted below a separate folder.
#pragma once

#include <kj/string.h>

namespace talos::machined {

struct GroupUse {
  uint64_t memoryBytes = 0;  // without files that were not used lately: the working set
  uint64_t cpuNanoseconds = 0;
};
// Returns 0 for figures that are not counted, or for a process that has exited. Reads a few files
// of the kernel.
GroupUse groupUseOf(uint32_t pid, kj::StringPtr proc = "/proc",
                    kj::StringPtr cgroups = "/sys/fs/cgroup");

}  // namespace talos::machined
