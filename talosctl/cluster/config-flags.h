// Flags of `cluster create` about the configs of the nodes, and documented flags of the original
// that are not supported: each of these fails with the reason, instead of being an unknown flag or
// doing nothing. They are hidden from help and completion.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cluster/nodes/cluster-configs.h"

namespace talos::cluster {

void addConfigFlags(talosctl::Command& create);
// Throws a usage error for flags that exclude each other, and Unimplemented for the first
// unsupported flag, unless its value asks for the usual behaviour.
void checkConfigFlags(const talosctl::Invocation& call);
// Fills in the values of these flags. `options` refers to `call`.
void readConfigFlags(const talosctl::Invocation& call, ConfigOptions& options);

}  // namespace talos::cluster
