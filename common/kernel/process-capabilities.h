// The capabilities with which the node's programs can be started: those of process 1. The brain has
// fewer, and process 1 starts the others.
#pragma once

#include <kj/string.h>

namespace talos {

// The bounding set in a text of /proc/<pid>/status; none where it is not.
kj::Maybe<uint64_t> boundingSetOf(kj::StringPtr status);

// `capability`: a number of linux/capability.h.
bool process1May(unsigned capability);

}  // namespace talos
