// Flags of `cluster create` for the configs of the nodes, and documented flags of Talos that
// are not supported. An unsupported flag fails with the reason; it is neither unknown nor ignored.
// Unsupported flags are hidden from help and completion.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cluster/nodes/cluster-configs.h"

namespace talos::cluster {

void addConfigFlags(talosctl::Command& create);
// Throws a usage error for flags that exclude each other, and Unimplemented for the first
// unsupported flag, unless its value requests the default behaviour.
void checkConfigFlags(const talosctl::Invocation& call);
// Fills in the values of these flags. `options` refers to `call`.
void readConfigFlags(const talosctl::Invocation& call, ConfigOptions& options);

}  // namespace talos::cluster
