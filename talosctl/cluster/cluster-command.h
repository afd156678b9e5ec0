// talosctl cluster create | show | destroy, and the hidden cluster-run (the supervisor's own
// process). Flags and output: spec talosctl.md §13.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addClusterCommands(Command& root);

}  // namespace talos::talosctl
