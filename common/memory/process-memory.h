// What a program does with its memory as a whole: gives back what it needed only to start, and
// keeps secrets in it.
#pragma once

#include <kj/async.h>
#include <kj/common.h>
#include <kj/timer.h>

namespace talos {

// Unmaps the pages of the program's own file (code and constants): the ones that are used come back
// from the page cache at their next use, in microseconds; those of start-up stay away. Gives free
// heap back, too. For a daemon that is done with starting. Never changes what the program does.
void releaseStartMemory();

// The same a minute and five minutes from now: by then what follows a start is over too, such as
// joining a cluster or its first manifests. The promise is done then.
kj::Promise<void> releaseStartMemoryLater(kj::Timer& timer);

// For a program that holds keys: neither a crash nor a debugger of the same user gets its memory.
// For good, and for this program only: another one that it executes begins anew.
void refuseCoreDumps();

// These bytes are not written to a swap device, as far as RLIMIT_MEMLOCK goes; false beyond.
bool keepOffDisk(kj::ArrayPtr<const kj::byte> bytes);

}  // namespace talos
