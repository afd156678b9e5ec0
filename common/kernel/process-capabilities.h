// Capabilities with which the node's programs can be started: those of process 1. The brain has
// fewer, and process 1 starts the other programs.
#pragma once

#include <kj/string.h>

namespace talos {

// Returns the bounding set in a text of /proc/<pid>/status; nullptr if the text has none.
kj::Maybe<uint64_t> boundingSetOf(kj::StringPtr status);

// Returns true if process 1 has the capability, a number of linux/capability.h.
bool process1May(unsigned capability);

}  // namespace talos
