// Checks packets from the brain: a valid request, or the mistake. Pure.
#pragma once

#include "machined/process1/init/init-protocol.h"

namespace talos::process1 {

// Returns nullptr if `size` bytes at `packet` with this many descriptors are a well-formed request,
// else the mistake. After nullptr every string in it is terminated within its field and every count
// is in bounds.
const char* check(const void* packet, size_t size, unsigned descriptors);

// Returns true for a relative path of plain components: no "", ".", "..".
bool plainPath(const char* path);

// Fills argv and environment (each ended by nullptr) from a checked request.
void strings(const Spawn& spawn, char** argv, char** environment);

}  // namespace talos::process1
