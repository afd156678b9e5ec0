// crashes; debug log-level, debug cores, debug stack, debug profile
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

void addCrashCommands(Command& root);  // crashes-command.cc
void addDebugCommands(Command& root);  // debug-command.cc

void addStackCommands(Command& debug);  // stack-command.cc

}  // namespace talos::talosctl
