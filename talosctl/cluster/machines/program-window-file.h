// The host's end of a program window (common/base/program-window.h).
#pragma once

#include <kj/string.h>

#include "common/base/program-window.h"

namespace talos::cluster {

// Creates a new, empty window for a start of the machine, which must not find an order of an
// earlier run.
void makeWindow(kj::StringPtr file);

// Writes an order for the next start of this service. `program` is empty except for kReplace, and
// at most program_window::kMostProgram long. NotFound if the machine was started without a window.
void giveOrder(kj::StringPtr file, program_window::Order order, kj::StringPtr service,
               kj::ArrayPtr<const char> program);
// Clears the order and returns its memory to the host. Never fails.
void clearOrder(kj::StringPtr file);

}  // namespace talos::cluster
