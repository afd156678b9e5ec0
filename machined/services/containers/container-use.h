// The figures that the kernel has for the control groups of a process: for nodes in containers, of
// whose groups containerd finds none where version 1 is mounted below a folder of its own.
#pragma once

#include <kj/string.h>

namespace talos::machined {

struct GroupUse {
  uint64_t memoryBytes = 0;  // without files that nobody has used lately: the working set
  uint64_t cpuNanoseconds = 0;
};
// 0 for what is not counted, or for a process that has gone. It reads a few files of the kernel.
GroupUse groupUseOf(uint32_t pid, kj::StringPtr proc = "/proc",
                    kj::StringPtr cgroups = "/sys/fs/cgroup");

}  // namespace talos::machined
