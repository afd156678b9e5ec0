// Before a question (talosctl/cli/standard-input.h), finds out if somebody can answer it.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// True when a user is at the terminal, false when none is. A question that cannot be read or
// answered there is an error: it is neither asked nor skipped. `what`: "whether to reset".
bool canAsk(Invocation& call, kj::StringPtr what);

}  // namespace talos::talosctl
