// All commands of the program.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Adds every command of commands.inc: all except those of clusters, which talosctl/main.cc adds.
void addCommands(Command& root);
// Those that the documents name and this program does not have, and flags of the original that are
// refused with a reason (refused-flags.cc): after all others, because one that exists is not
// absent.
void addAbsentCommands(Command& root);
void refuseFlags(Command& root);

}  // namespace talos::talosctl
