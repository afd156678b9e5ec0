// The memory of a node as lines of /proc/meminfo. It blocks for a few files, which the kernel has
// in memory.
#pragma once

#include "machined/api/proc-text.h"

namespace talos::machined {

// Those of the kernel; of a node in a container with a limit, which the file `limit` names, those
// that its control groups count: the kernel's are the host's.
kj::Vector<MemoryLine> readMemory(kj::StringPtr proc, kj::StringPtr cgroups, kj::StringPtr limit);

}  // namespace talos::machined
