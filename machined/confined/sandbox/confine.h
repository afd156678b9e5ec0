// Drops every privilege that the program must not have, in the only order that works.
#pragma once

#include "machined/confined/sandbox/confine-options.h"

namespace talos::confine {

// Applies all `options` but the command to this process, which has one thread. Throws like run().
// `program`: the pointer that execve will be called with; nullptr if this program does the work
// itself, and may start no other.
void enter(const Options& options, const char* program = nullptr);

// Applies all `options` and becomes the program. Throws if any of them fails: a program is never
// started with more rights than intended. Only Landlock may be missing, on a kernel without it,
// which is reported on standard error.
[[noreturn]] void run(const Options& options);

}  // namespace talos::confine
