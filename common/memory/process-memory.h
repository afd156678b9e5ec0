// Settings for the memory of a whole program: returns memory that was needed only to start, and
// keeps secrets from leaving the program.
#pragma once

#include <kj/async.h>
#include <kj/common.h>
#include <kj/timer.h>

namespace talos {

// Unmaps the pages of the program's own file (code and constants): pages in use are mapped again
// from the page cache at their next use, in microseconds; pages used only at start stay unmapped.
// Returns free heap, too. For a daemon that has started. Never changes the program's behaviour.
void releaseStartMemory();

// Does the same ten seconds, a minute and five minutes from now: by then the work that follows a
// start has ended, such as the first calls, joining a cluster or its first manifests. Resolves
// after the last time.
kj::Promise<void> releaseStartMemoryLater(kj::Timer& timer);

// Keeps the heap of a program with several threads small: one heap for all of them, blocks of 128
// KiB and more returned to the kernel when they are freed, no huge pages. Called before other
// threads start. Programs that this one starts have no huge pages either.
void keepHeapSmall();

// Keeps the memory of a program that holds keys from core dumps and from a debugger of the same
// user. Permanent, and for this program only: execve() resets it.
void refuseCoreDumps();

// Keeps these bytes from being written to a swap device; returns false beyond RLIMIT_MEMLOCK.
bool keepOffDisk(kj::ArrayPtr<const kj::byte> bytes);

}  // namespace talos
