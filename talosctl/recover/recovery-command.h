// cluster recover
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addRecoverCommand(Command& cluster);

}  // namespace talos::talosctl
