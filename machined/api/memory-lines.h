// The memory of a node as lines of /proc/meminfo. Blocks for a few files, which the kernel has in
// memory.
#pragma once

#include "machined/api/proc-text.h"

namespace talos::machined {

// Returns the kernel's lines; for a node in a container with a limit (in the file `limit`), the
// counts of its control groups: the kernel's lines are the host's.
kj::Vector<MemoryLine> readMemory(kj::StringPtr proc, kj::StringPtr cgroups, kj::StringPtr limit);

}  // namespace talos::machined
