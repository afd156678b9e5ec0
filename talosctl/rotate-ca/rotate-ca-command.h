// The command `rotate-ca`.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addRotateCaCommand(Command& root);

}  // namespace talos::talosctl
