// The last unmounting of a node: writes all content to the disks, and then unmounts everything.
//
// Each step can hang for ever, on a dead disk or an unreachable server (of an NFS or iSCSI volume),
// in calls that no signal ends. So each mount has its own child with a limit; a child that hangs is
// left behind, as are all of the same device, and the other mounts are still unmounted.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "machined/process1/init/init-console.h"

namespace talos::process1 {

// Reaps until this child has ended or, with 0, until only this process is left: every orphan is a
// child of process 1. Returns false after `ms`.
bool reapUntil(pid_t child, int64_t ms);
inline bool reapUntilAlone(int64_t ms) {
  return reapUntil(0, ms);
}

// Unmounts within 5 s for all network mounts together; 5 s for each other mount, and more as long
// as the unwritten content decreases (/proc/meminfo); 35 s in all, or 2 s more for content that no
// mount shows. The caller blocks SIGCHLD before.
void unmountAll(const Console& console);

}  // namespace talos::process1
