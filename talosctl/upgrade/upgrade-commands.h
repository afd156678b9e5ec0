// The commands of this room.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addUpgradeCommands(Command& root);  // upgrade, rollback
void addConfirmUpgradeCommand(Command& root);

}  // namespace talos::talosctl
