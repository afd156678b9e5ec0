// Shell completion scripts, made from the tree of commands: commands, aliases, flags, and the
// values of flags and arguments that have a fixed set. Nothing is asked from a node while a user
// types.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

kj::String bashCompletion(const Command& root);
kj::String zshCompletion(const Command& root);

}  // namespace talos::talosctl
