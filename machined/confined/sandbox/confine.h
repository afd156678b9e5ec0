// Drops every privilege that the program must not have, in the only order that works.
#pragma once

#include "machined/confined/sandbox/confine-options.h"

namespace talos::confine {

// Does all that `options` say and becomes the program. Throws when any of it fails: a program is
// never started with more than it was meant to have. The only thing that may be missing is
// Landlock, on a kernel without it, which is said on standard error.
[[noreturn]] void run(const Options& options);

}  // namespace talos::confine
