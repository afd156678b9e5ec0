// Leads from an error that the user can do nothing about to what the node logged.
#pragma once

#include "common/base/error.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

// A line for stderr, behind the error: the command that shows the lines of the request in the logs
// of the node. Empty for other errors, and when no node was called.
kj::String requestNote(const Dependencies& deps, const kj::Exception& e);

}  // namespace talos::talosctl
