// The command `upgrade-cluster`.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addUpgradeClusterCommand(Command& root);

}  // namespace talos::talosctl
