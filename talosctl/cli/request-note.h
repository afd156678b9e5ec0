// Points the user from an error that only the node can explain to the node's log.
#pragma once

#include "common/base/error.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Returns a line for stderr, to be printed after the error: the command that shows the lines of
// this request in the node's logs. Empty for other errors, and if no node was called.
kj::String requestNote(const Dependencies& deps, const kj::Exception& e);

}  // namespace talos::talosctl
