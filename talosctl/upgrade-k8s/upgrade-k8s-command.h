// The command `upgrade-k8s`.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addUpgradeK8sCommand(Command& root);

}  // namespace talos::talosctl
