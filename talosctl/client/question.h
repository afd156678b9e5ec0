// Finds out, before a question (talosctl/cli/standard-input.h), if a user can answer it.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Returns true if a user is at the terminal, and false if there is no terminal. Throws if only one
// of standard input and stderr is a terminal: such a question is neither asked nor skipped. `what`:
// "whether to reset".
bool canAsk(Invocation& call, kj::StringPtr what);

}  // namespace talos::talosctl
