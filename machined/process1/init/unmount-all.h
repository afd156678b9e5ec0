// The last unmounting of a node: what is in memory gets to the disks, and then nothing is mounted.
//
// Any of it can hang for ever, on a disk that died or a server that is away (of an NFS or iSCSI
// volume), in calls that no signal ends. So each mount is left to a child of its own with a limit;
// one that hangs stays behind, as all do of its device, and the others are unmounted all the same.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "machined/process1/init/init-console.h"

namespace talos::process1 {

// Reaps until that child has ended or, with 0, until no process but this one is left: every orphan
// is a child of process 1. False at the end of `ms`.
bool reapUntil(pid_t child, int64_t ms);
inline bool reapUntilAlone(int64_t ms) {
  return reapUntil(0, ms);
}

// 5 s for all mounts of servers together; 5 s for each other one, and more as long as what is not
// written yet gets less (/proc/meminfo); 35 s in all, or 2 s more for what no mount shows. Blocks
// SIGCHLD before.
void unmountAll(const Console& console);

}  // namespace talos::process1
