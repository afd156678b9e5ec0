// Flags of `cluster create` about the configs of the nodes, and those that the documents of the
// original name and this version cannot do: each of these says which capability it waits for, or
// why a local cluster of ours needs none of it, instead of being an unknown word or doing nothing.
// They are hidden from help and completion.
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cluster/nodes/cluster-configs.h"

namespace talos::cluster {

void addConfigFlags(talosctl::Command& create);
// Throws a usage error for flags that exclude each other, and Unimplemented for the first of the
// others that asks for what is not done anyway.
void checkConfigFlags(const talosctl::Invocation& call);
// Fills in what the flags of this file say. `options` refers to `call`.
void readConfigFlags(const talosctl::Invocation& call, ConfigOptions& options);

}  // namespace talos::cluster
