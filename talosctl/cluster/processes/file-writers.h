// Finds the processes that have a file of a folder open for writing, whichever program started
// them.
//
// A virtual machine, and a tool of a cluster, is in no cgroup of this program. After its supervisor
// was killed, this is how remaining processes are found before the cluster's disks are removed.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos::cluster {

// Returns their pids, sorted, without this process. Only root sees processes of other users.
kj::Vector<int> fileWriters(kj::StringPtr folder);

// Waits until there are no such processes: they die with their supervisor, but not at the same
// instant. FailedPrecondition with their pids if some are left at the deadline. Blocks.
void requireNoFileWriters(kj::StringPtr folder, kj::Duration deadline);

}  // namespace talos::cluster
