// The commands for Kubernetes.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addKubeconfigCommand(Command& root);

}  // namespace talos::talosctl
