// Settings for the memory of a whole program: it returns memory that it needed only to start, and
// does not let secrets leave it.
#pragma once

#include <kj/async.h>
#include <kj/common.h>
#include <kj/timer.h>

namespace talos {

// Unmaps the pages of the program's own file (code and constants): the ones in use are mapped again
// from the page cache at their next use, in microseconds; those of start-up stay unmapped. Returns
// free heap, too. For a daemon that has started. Never changes the program's behaviour.
void releaseStartMemory();

// The same a minute and five minutes from now: by then the work that follows a start has ended,
// such as joining a cluster or its first manifests. Resolves after the second time.
kj::Promise<void> releaseStartMemoryLater(kj::Timer& timer);

// For a program that holds keys: neither a crash nor a debugger of the same user gets its memory.
// Permanent, and for this program only: execve() resets it.
void refuseCoreDumps();

// Keeps these bytes from being written to a swap device; false beyond RLIMIT_MEMLOCK.
bool keepOffDisk(kj::ArrayPtr<const kj::byte> bytes);

}  // namespace talos
