// The commands of this folder.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addUpgradeCommands(Command& root);  // upgrade, rollback
void addConfirmUpgradeCommand(Command& root);

}  // namespace talos::talosctl
