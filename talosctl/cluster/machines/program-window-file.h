// The host's end of a program window (common/base/program-window.h).
#pragma once

#include <kj/string.h>

#include "common/base/program-window.h"

namespace talos::cluster {

// A new one, empty, for a start of the machine: it finds no order of an earlier run.
void makeWindow(kj::StringPtr file);

// An order for the next start of this service. `program` is empty but for kReplace, and at most
// program_window::kMostProgram. NotFound when the machine was started without a window.
void giveOrder(kj::StringPtr file, program_window::Order order, kj::StringPtr service,
               kj::ArrayPtr<const char> program);
// None any more; gives the host the memory back. Never fails.
void clearOrder(kj::StringPtr file);

}  // namespace talos::cluster
