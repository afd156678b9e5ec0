// crashes; debug log-level
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addCrashCommands(Command& root);  // crashes-command.cc
void addDebugCommands(Command& root);  // debug-command.cc

}  // namespace talos::talosctl
