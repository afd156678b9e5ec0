// All commands of the program.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Adds every command except those of clusters, which talosctl/main.cc adds.
void addCommands(Command& root);

#define COMMANDS(add) void add(Command& root);
#include "talosctl/commands/commands.inc"
#undef COMMANDS

}  // namespace talos::talosctl
