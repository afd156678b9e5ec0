// Finds the processes that have a file of a folder open for writing, whoever started them.
//
// A virtual machine, and a tool of a cluster, is in no cgroup of ours: when its supervisor was
// killed, this is how what is left of it is found before its disks are removed.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos::cluster {

// Their pids, sorted, without this process. Those of other users are seen by root alone.
kj::Vector<int> fileWriters(kj::StringPtr folder);

// Waits until there is none: processes die with their supervisor, but not in the same instant.
// FailedPrecondition with their pids when some are left at the deadline. Blocking.
void requireNoFileWriters(kj::StringPtr folder, kj::Duration deadline);

}  // namespace talos::cluster
