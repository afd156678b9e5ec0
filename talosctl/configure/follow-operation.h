// Follows work that a node continues after it has answered: a config whose keys of volumes are
// being changed (resource Operations/apply-config).
#pragma once

#include "talosctl/cli/command.h"
#include "talosctl/cli/progress-lines.h"

namespace talos::talosctl {

// Until the operation of this number has ended, over connections of its own. Shows each step in
// line `index` of `progress`. Rejects with the reason when it failed, and when --timeout (10
// minutes if it was not given) has passed; the node continues it nevertheless.
kj::Promise<void> followOperation(Invocation& call, kj::StringPtr node, uint64_t number,
                                  Progress& progress, size_t index);

// An error of the connection, such as that of a machined that restarts: the same may work later.
bool mayPass(const kj::Exception& e);

}  // namespace talos::talosctl
