// Standard input, without keeping Ctrl-C from its work.
#pragma once

#include "talosctl/command.h"

namespace talos::talosctl {

// All of it. InvalidArgument when there are more than `limit` bytes.
kj::Promise<kj::String> readInput(World& world, size_t limit);

}  // namespace talos::talosctl
