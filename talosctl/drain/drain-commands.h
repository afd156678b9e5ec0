// The commands `cordon`, `uncordon` and `drain`.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addDrainCommands(Command& root);

}  // namespace talos::talosctl
