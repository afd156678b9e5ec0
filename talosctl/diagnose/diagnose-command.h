// diagnose
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addDiagnoseCommand(Command& root);

}  // namespace talos::talosctl
