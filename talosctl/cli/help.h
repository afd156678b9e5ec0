// Help and usage texts, made from the tree of commands.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// What `--help` prints: summary, usage, aliases, commands or flags.
kj::String helpText(const Command& command);
// What follows a mistake on the command line.
kj::String usageText(const Command& command);

}  // namespace talos::talosctl
