// Follows work that a node continues after its answer: a config whose keys of volumes are being
// changed (resource Operations/apply-config).
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cli/progress-lines.h"

namespace talos::talosctl {

// Follows the operation of this number to its end, over its own connections. Shows each step in
// line `index` of `progress`. Rejects with the reason if it failed, and when --timeout (default 10
// minutes) has passed, although the node then continues the operation.
kj::Promise<void> followOperation(Invocation& call, kj::StringPtr node, uint64_t number,
                                  Progress& progress, size_t index);

// Returns true for an error of the connection, such as during a restart of machined: a retry may
// succeed.
bool mayPass(const kj::Exception& e);

}  // namespace talos::talosctl
