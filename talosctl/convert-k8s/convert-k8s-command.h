// The command `convert-k8s`.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addConvertK8sCommand(Command& root);

}  // namespace talos::talosctl
